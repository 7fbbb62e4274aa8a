"""Applies rewards to one pod: the score that avoids bad nodes, and the circuit breaker that refuses them. Pure.

The evidence and its arithmetic are in `leadsman.rewards`.
"""
