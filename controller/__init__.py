"""Acts on what is known: labels, deschedule marks, wake-ups, Events. One is active at a time, under a Lease.

The plan is made in `decision.remedies`, purely; here it is compared with what stands and applied, within budgets.
"""
