"""Where the metrics of telemetry policies come from, and which policies there are.

One interface, several sources: the agents' own hardware metrics, the custom metrics API, a Prometheus query. What a
policy says about a node is decided in `decision`.
"""
