"""Learns from this node's pods: their incidents with causes, their healthy time, and how well each type of pod runs.

Pure rules on a pod's status stand beside the thin shell that follows the pods. Nothing here compares nodes: a decision,
which sees all of them, does.
"""
