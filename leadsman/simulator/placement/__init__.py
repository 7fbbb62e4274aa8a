"""Places a cluster's waiting pods by one policy or another and measures each in the same way.

    PlanInput's cluster and inputs → policy → Placement → outcome_of → Outcome → table, JSON, picture

A policy may be as good or as bad as it is; `outcome_of` judges all by the code that judges placements and failures.
"""
