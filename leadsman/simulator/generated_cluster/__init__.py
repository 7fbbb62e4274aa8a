"""Clusters that do not exist, made by a specification and a seed: racks x zones, delays, workloads, spare capacity.

`spec` is what a user may ask for, `network` the delays and who shares a rack, `generate` nodes, pods and places.
"""
