"""Reads the node's hardware values from its kernel and drivers.

A source file holds a pure parser (text → values), the metric families and a `collect(roots)` that yields Samples.
psutil is asked through `psutil_source`, which keeps its one root for the process, and by nobody else.
`collectors` is the table of them, `collector_threads` runs them under a deadline, `monitor` every few seconds;
`summary` makes the record for the store and `metrics` the text for Prometheus, both from the reading in memory.
Nothing here writes, and nothing knows the store, the peers or HTTP.
"""
