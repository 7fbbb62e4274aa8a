"""Many pods and nodes → a Plan: ordered actions, each with its reason. Pure: no clock, no I/O, no chance.

A planner is a function of what is known, a policy and `now`. The controller executes a plan within budgets, the command
line prints it, the simulator plays it. A new capability is a new planner here, not a new loop in the controller.
"""
