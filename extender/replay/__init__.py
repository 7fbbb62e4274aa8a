"""Decides recorded requests again, by the same policy or another, to show what the extender would have answered.

Here live the answers made again, how two answers differ and why, and the report of a whole recording.
"""
