"""Kubernetes' API server, as a client sees it: how to reach it, and lists that stay current by a watch.

Serves agent, extender and controller. Here live access (in-cluster, kubeconfig, rotating token), list + watch with its
resumes and re-lists, and the few fields of Pods, Nodes and Events that anybody uses. What they mean is decided
elsewhere.
"""
