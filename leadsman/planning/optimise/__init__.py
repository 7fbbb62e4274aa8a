"""Places and backups of all bounded pods together, with the least reserved capacity that a search finds.

    Cluster + DecisionInputs → model_cluster → Problem → greedy, search → Choices → plan_of_choices → OptimisedPlan

A Problem is integers only, so a solver in another process can have it. The search takes its solver as an argument.
What it finds is judged by `broken`, which knows nothing of the Problem.
"""
