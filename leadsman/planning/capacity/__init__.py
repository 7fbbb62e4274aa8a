"""Defines how many more pods of given templates fit beside what runs, what limits that, and what to add or fear for it.

    Cluster + DecisionInputs + templates → model_capacity → Problem → count_sets → Count → reports

No running pod moves and no planned backup changes. A Count has a number that is reached by a packing, and one that is
proven not to be exceeded; they are equal unless it says so. A Problem is integers only.
"""
