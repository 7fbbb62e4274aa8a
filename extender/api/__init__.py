"""The JSON API /api/v1, for people and the page in a browser: what the extender sees and what it decided.

Here live the types of the responses (`contract`), the functions that make them of a snapshot, delays and the journal,
the delay history, and the listener with its access checks. It decides nothing: what it says of a pod is a projection of
the decision in the journal.
"""
