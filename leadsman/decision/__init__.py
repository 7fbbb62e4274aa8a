"""Decides on one pod: which nodes may take it, how good each is, and why. Pure: no clock, no I/O, no chance.

A pod, the candidate nodes and DecisionInputs go in; a Decision with a reason for every refusal and every score comes
out. `/filter`, `/prioritize` and the API's explanations are projections of it.
"""
