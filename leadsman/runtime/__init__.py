"""Serves any long-running process: retries, caches, HTTP ports, TLS, threads, shutdown.

Knows no domain: nothing of Kubernetes, etcd, nodes, pods or policies may be imported or named here.
"""
