"""Plans where each bounded pod goes when its node, rack or zone fails, and the room that each node reserves for it.

    Cluster + DecisionInputs → plan_backups → BackupPlan → plan_placeholders → placeholders to create, resize, delete

Room is shared: what is reserved on a node is the largest sum of requests that one failure brings there, so any single
failure fits, and two that bring pods to the same node may not. Nothing here detects a failure or acts on one.
"""
