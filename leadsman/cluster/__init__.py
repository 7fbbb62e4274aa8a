"""Models the cluster at one moment: nodes, pods, storage, budgets, quotas, and what kube-scheduler asks of a node.

Pure: no I/O, no clock, no chance. Everything is immutable; "the cluster with pod X on node b" is derived from a Cluster
without copying it. What is decided on it belongs into `decision` and `planning`, how it is read into `sources/cluster`.
"""
