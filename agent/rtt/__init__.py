"""Round-trip times to peers: probes out, windows in.

`packet`, `clock`, `window`, `counters`, `probe_method`, `local_fault` and `peer` think without I/O; `sockets`,
`echo`, `tcp`, `endpoints` and `prober` send and wait. Nothing here knows where peers come from or where results go.
"""
