"""A small cluster's surroundings on one machine: networks with delay and loss, and an etcd to talk to.

Serves the demo, the tests and the benchmarks. Knows nothing about Leadsman: it could be used without it.
"""
