"""Plans which labels and marks of telemetry policies change on nodes now.

`desired_labels` computes the labels that policies ask for, `ownership` says which labels are ours to change,
`label_history` how often they changed, `limits` which changes may be made now; `label_planner` combines them.
"""
