"""The label plan: which labels and marks telemetry policies want on nodes, and which may change now.

`desired_labels` says what policies want, `ownership` what is ours to change, `label_history` what flapped, `limits`
what the budgets allow; `label_planner` makes the plan of them.
"""
