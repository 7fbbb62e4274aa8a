"""Simulates clusters with the real decisions, a virtual clock and seeded randomness.

`generated_cluster` makes clusters that do not exist. `placements` and `edge_rule` place the waiting pods, by one policy
or another, `outcome` measures each placement by the same code, and `solver` solves the problems of plans.
"""
