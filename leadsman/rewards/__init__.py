"""Learns how pods of each type fare on each node: incidents, evidence, rewards and their confidence.

Pure: no clock, no I/O, no chance. The agent keeps the evidence of its own node; decisions compare the nodes.
"""
