"""Where workloads run, what nodes are for and which addresses are theirs, followed from the API server.

What a location means for a pod is decided in `decision`.
"""
