"""Delay bounds: what a pod asks, to which nodes a bound is, which pair decides on it, and what follows.

Pure. `bounds` parses, `targets` resolves names, `rtt_table` says what is measured or estimated between two nodes and
`bound_check` what that means for a bound. The filter, the scores, the probe pairs and the explanation read from these.
"""
