"""The controller acts on what is known: labels, deschedule marks, wake-ups, Events. One is active, under a Lease.

Plans are made in `leadsman.planning`, purely. Here they are executed within budgets, and their outcome is watched.
"""
