"""Plans new places for pods: for one whose delay left its bound, and for one that must make room for a pending one.

    Cluster + DecisionInputs + ReplacementMemory → plan_replacements → actions, ReplacementMemory, reports of no fix

An evicted pod cannot be brought back. So the room that it goes to is held by a pod of its own before the eviction, and
everything is checked again in between. Each step is planned from what the API server shows now: called again and again,
a plan that was interrupted goes on where it stopped.
"""
