"""Learned rewards in a decision: the score that avoids bad nodes and the circuit breaker that refuses them.

Pure. The evidence and its arithmetic are `leadsman.rewards`; here it is weighed for one pod.
"""
