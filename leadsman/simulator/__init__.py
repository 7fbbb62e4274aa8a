"""Simulated clusters: the real decisions and peering code, a virtual clock, seeded randomness.

`solver` is the process that solves for offline plans, `generated_cluster` makes clusters for them.
"""
