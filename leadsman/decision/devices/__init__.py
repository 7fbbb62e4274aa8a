"""Devices where they meet the decision on one pod: fit on one card, bandwidth of a link, tightest fit, gain. Pure.

What a node has and who has it is in `leadsman.cluster.devices`. A node is evaluated once for a pod (`evaluation`);
refusals, scores and explanations are read from that value.
"""
