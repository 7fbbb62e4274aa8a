"""Measures round-trip times to peers: sends probes and keeps windows of their outcomes.

`packet`, `clock`, `window`, `counters`, `probe_method`, `probe_result`, `local_fault`, `schedule` and `peer` do no I/O;
`sockets`, `echo`, `tcp`, `endpoints` and `prober` send and wait. Nothing here knows where peers come from or where
results go.
"""
