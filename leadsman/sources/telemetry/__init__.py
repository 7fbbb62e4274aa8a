"""Follows telemetry policies and the metrics that they name.

The metrics have several sources behind one interface: the agents' own hardware metrics, the custom metrics API and
Prometheus. What a policy says about a node is decided in `leadsman.decision`.
"""
