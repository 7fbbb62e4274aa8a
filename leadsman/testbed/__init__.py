"""Makes what a cluster needs on one machine: networks with delay and loss, etcd, API servers real and fake,
certificates.

Serves the demo, the tests and the benchmarks. Imports no other part of Leadsman; only names that it gives to namespaces
and files say whose they are.
"""
