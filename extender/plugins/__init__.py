"""Scores and filters of other packages, each in a process of its own, so that none can hurt an answer but its own.

`worker` is the plugin's process and what passes between it and the extender, `process` one plugin as the extender sees
it and the questions of one decision, `host` keeps the plugins that the policy names, and `events` tells people.
"""
