"""Planners look at many pods and nodes and return a plan: actions, each with its reason. Pure: no clock, I/O or chance.

Today `labels` plans which labels change on nodes, `requeue` which node to touch so that refused pods are retried, and
`failover` which nodes are dead. A planner is a function of the cluster, the decision inputs and its own memory; the
controller executes its plan within budgets. A new capability is a new planner here, not a new loop in the controller.

The plans share no type: nothing yet handles a plan without knowing which one it is.
"""
