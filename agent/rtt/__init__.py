"""Measures round-trip times to peers: sends probes and keeps windows of their outcomes.

`prober` sends and waits, by `icmp` and by TCP handshakes; `peer` says whom, how and when; `peer_stats` keeps what the
probes came to. Nothing here knows where peers come from or where results go.
"""
