"""Compares strategies by the pods that fail under them: faults appear, move and are repaired, and a node joins.

Every strategy meets the same pods, faults and random numbers. Leadsman's is the real code: the agents' rewards, the
records' bytes, a snapshot, `decide`.
"""
