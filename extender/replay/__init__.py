"""What the extender would have answered: recorded requests decided again, by the same policy or by another one.

Here live the answers made again, how two answers differ and why, and the report of a whole recording.
"""
