"""What each way to choose nodes costs in failed pods, where faults come, move, are repaired, and a node joins.

The same pods, faults and luck for every contestant. Ours is the real thing: the ledger of the agents, the records'
bytes, a snapshot, `decide`.
"""
