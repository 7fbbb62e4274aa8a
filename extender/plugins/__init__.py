"""Scores and filters of other packages, each in a process of its own, so that none can hurt an answer.

`frames` is what passes between the two, `worker` the plugin's process, `channel` one conversation with it under a
deadline, `health` when a plugin is off, `host` all of them for the extender, `events` what people are told of them.
"""
