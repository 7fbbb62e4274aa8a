"""Plans what follows when a node dies. Pure, as all planning: snapshots, Leases and `now` are arguments.

`signals` remembers what was seen of each node, and tells of three signs of death whether each is true, false or
unknown, and whether several nodes fell silent together, and `verdicts` what all that means (`node_verdict`). Unknown is
never true. Who fetches Leases and who writes to the cluster is the controller.
"""
