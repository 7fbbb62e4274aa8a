"""Says which pods need a new place: one whose delay left its bound, and one that must make room for a pending one.

    Cluster + DecisionInputs + ReplacementMemory → plan_replacements → actions, ReplacementMemory, reports of no fix

How a pod moves is in `leadsman.planning.moves`. Each step is planned from what the API server shows now: called again
and again, a plan that was interrupted goes on where it stopped.
"""
