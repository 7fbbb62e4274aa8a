"""Follows the API server's pods and nodes: where workloads run, which roles nodes have, which addresses are theirs, and
the whole cluster as `leadsman.cluster` has it.

Each follower holds one view of its own, replaced and never altered. What a view means for a pod is decided in
`leadsman.decision`.
"""
