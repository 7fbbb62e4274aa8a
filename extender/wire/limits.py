"""How large what is decoded may be. The whole body is bounded by the HTTP server."""

MAX_NODES = 20_000
"""Of a request: four times what Kubernetes supports in a cluster, and what the followed state may hold."""

MAX_OBJECT_BYTES = 4 << 20
"""Of a pod or node: etcd holds at most 1.5 MiB of one, mostly not as JSON."""
