"""The agent: measures on its node and writes what it found.

One process a node. Here live the peers, the probes and their statistics, the hardware collectors, the
report to the store and the metrics endpoint. It reads the state only to learn its peers, and it never
decides anything about pods: `decision` may not be imported here.
"""
