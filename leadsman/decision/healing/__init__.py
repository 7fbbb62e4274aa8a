"""Self-healing where it meets the decision on one pod: dead nodes, room held for others, placeholders. Pure.

What is done about a dead node is planned in `leadsman.planning.recovery`; here its state only refuses. The delays that
were last measured to a dead node are used where delays are: `leadsman.decision.delay`.
"""
