"""Round-trip times to peers: probes out, windows in.

`packet`, `clock`, `window`, `tally`, `choice`, `silence` and `peer` think without I/O; `sockets`, `echo`, `tcp`,
`names` and `prober` send and wait. Nothing here knows where peers come from or where results go.
"""
