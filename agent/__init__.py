"""The agent measures on its node and writes what it measured to etcd.

One process a node. Here are the peers, the probes and their statistics, the hardware collectors, the pods' incidents,
the report to etcd and the metrics endpoint. It reads the state only to find its peers and what it wrote before its
last restart, and it never decides anything about pods: `leadsman.decision` may not be imported here.
"""
