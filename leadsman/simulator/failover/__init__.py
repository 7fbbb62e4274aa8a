"""Deaths of nodes in clusters of any size, on a virtual clock: the real planners from the first lost probe to the bind.

What agents, kubelets, the API server and kube-scheduler do is simulated, each with the rhythm of the real one.
"""
