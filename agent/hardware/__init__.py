"""Reads the node's hardware values from its kernel and drivers.

A source file holds pure parsers (text → values), the metric families and functions `collect_…(roots)` that yield
Samples. `monitor` has the table of them, runs them under a deadline every few seconds and shows the latest reading to
Prometheus; `summary` makes the record for the store. Nothing here writes, or knows the store, the peers or HTTP.
"""
