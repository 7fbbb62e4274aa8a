"""The JSON API /api/v1, for people and the page in a browser: what the extender sees and what it decided.

Each resource has one file with its types, what makes them, and its routes. Beside them stand what all share
(`requests`, `live`, `view`), the delay history, and the listener (`app`). It decides nothing: what it says of a pod is
a projection of the decision in the journal.
"""
