"""Asks scores and filters of other packages, each in its own process, so that none can hurt any answer but its own.

`worker` is the plugin's process and what passes between it and the extender, `process` one plugin as the extender sees
it and the questions of one decision, and `host` keeps the plugins that the policy names.
"""
