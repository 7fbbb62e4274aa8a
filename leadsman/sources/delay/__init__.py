"""Follows delay sources besides our agents, and fits estimates to what all of them measured.

The sources, Goldpinger and static files, have one interface. Estimates are fitted here in the background with the
arithmetic of `leadsman.network`. What a delay means for a pod is decided in `leadsman.decision`.
"""
