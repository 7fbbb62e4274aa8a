"""Talks to Kubernetes' API server: access, calls, and lists that are kept current by a watch.

It serves agent, extender and controller. Here live access (in-cluster, kubeconfig, rotating token), list + watch with
its resumes and re-lists, leader election, and the few fields of Pods, Nodes and Events that are used. What they mean is
decided elsewhere.
"""
