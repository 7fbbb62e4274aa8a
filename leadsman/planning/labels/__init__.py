"""Plans which labels and marks of telemetry policies change on nodes now.

`label_plan` has what a plan is made of, `desired_labels` computes the labels that policies ask for; `label_planner`
makes the plan from both, within limits.
"""
