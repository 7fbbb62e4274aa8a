"""Follows every source of a decision, and reads all at its moment, in the same way for the extender and the controller.

`delay`, `telemetry` and `cluster` each follow one kind of source, `policy_file` the policy; `wiring` builds and runs
all of them and reads their newest values as one DecisionInputs, and `cluster_snapshot` is the file of it.
What the values mean is decided in `leadsman.decision`.
"""
