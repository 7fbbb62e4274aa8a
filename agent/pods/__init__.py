"""What happened to this node's pods: incidents with their cause, healthy time, and how well each type ran.

Pure rules on a pod's status stand beside the thin shell that follows the pods. Nothing here compares nodes: a decision
does, who sees them all.
"""
