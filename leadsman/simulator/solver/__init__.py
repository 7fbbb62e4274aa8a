"""A solver for `leadsman.planning.optimise`, in a process of its own: it needs the extra `plan` and much memory.

`cp_sat` alone imports ortools; `child` is the process, `parent` starts it.
"""
