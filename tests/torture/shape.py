"""The shape of the tortured cluster: its nodes and processes by name. Pure."""

NODES = {
    "edge-1": 0.0,
    "edge-2": 3.0,
    "edge-3": 6.0,
    "edge-4": 10.0,
    "edge-5": 60.0,
    "edge-6": 65.0,
    "edge-7": 70.0,
    "edge-8": 90.0,
}
"""Node → round-trip ms from edge-1. The nodes are on one line, so these are also the distances between any two."""

PAPER_NODES = tuple(f"paper-{number}" for number in range(1, 23))
"""Nodes of the API server without an agent."""

CLUSTER_NODES = (*NODES, *PAPER_NODES)
CARD_NODES, CARDS_A_NODE, CARD_GB, POD_GB = PAPER_NODES[:2], 2, 8, 5
"""These have cards, of which a pod asks for most of one's memory: a node has room for as many pods as it has cards."""

MOVE_NODES = tuple(f"moves-{number}" for number in range(1, 5))
MOVED_WORKLOADS, GUARDED_WORKLOAD = tuple(f"moved-{number}" for number in range(1, 9)), "guarded"
"""Of one pod each, which plans move between those nodes; the last has a disruption budget that allows no eviction. No
other pod is asked about there: while room is held, nobody else is let in."""

ETCD = "etcd"
EXTENDERS = EXTENDER_A, EXTENDER_B = "extender-a", "extender-b"
CONTROLLERS = "controller-a", "controller-b"
AGENTS = tuple(f"agent-{node}" for node in NODES)
FOREIGN_LABELS = {"example.com/team": "blue", "cold": "violating"}
"""Labels of every node that are nobody's business here; the second one looks like a mark of ours."""

CRASHING_NODES, CRASHING_TYPE = ("edge-2", "edge-7"), "crasher"
"""Where one pod of this type is restarted again and again."""

LAST_NODE = "edge-8"
LAST_AGENT = f"agent-{LAST_NODE}"
