"""Plans what follows when a node dies. Pure, as all planning: snapshots, Leases and `now` are arguments.

Today: which node is dead, and which is only suspect. `observations` remembers what was seen of each node, `votes` what
each prober says about it, `signals` tells of three signs of death whether each is true, false or unknown, `partition`
whether several nodes fell silent together, and `meanings` and `verdicts` what all that means. Unknown is never true.

What is done about a dead node belongs here too, in files of its own that read `model.NodeVerdict` and nothing else of
this. Who fetches Leases and who writes to the cluster is the controller.
"""
