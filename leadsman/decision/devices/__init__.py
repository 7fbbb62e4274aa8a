"""Decides by devices: what fits on one card, a link's bandwidth, the tightest fit, and what a pod gains. Pure.

What a node has and who has it is in `leadsman.cluster.devices`. A node is evaluated once for a pod (`device_filter`);
refusals, scores and explanations are read from that value.
"""
