"""The agent measures on its node and writes what it found.

One process a node. Here live the peers, the probes and their statistics, the hardware collectors, the pods' incidents,
the report to the store and the metrics endpoint. It reads the state only to learn its peers and what it wrote before
its last restart, and it never decides anything about pods: `leadsman.decision` may not be imported here.
"""
