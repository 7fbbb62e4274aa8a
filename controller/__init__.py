"""The controller acts on the cluster: it labels nodes, has refused pods retried, and writes Events and policy status.

Plans are made in `leadsman.planning`, which is pure. Here they are executed within budgets. One replica is active at a
time, under a Lease.
"""
