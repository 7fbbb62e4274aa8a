"""Where delays come from besides our own agents, and what is estimated from all of them.

One interface, several sources: own agents, Goldpinger, static files. Estimates are fitted here in the background; the
arithmetic is `network`'s, what a delay means for a pod is decided in `decision`.
"""
