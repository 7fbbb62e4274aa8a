"""A solver for `leadsman.planning.optimise`, in a process of its own: it needs the extra `plan` and much memory.

`part_model`, `cp_sat` and `relaxation` alone import ortools; `child` is the process, `parent` starts it.
"""
