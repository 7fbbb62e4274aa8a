"""How much a reader keeps of one node, so that what one prefix holds cannot slow down or stop the reader.

The credentials of one agent are enough to fill its node's prefix. Beyond these limits a reader drops: of a listing what
is later in key order, of changes what is new. It goes on to use what it keeps, and every other node. Each node of which
it dropped something is named among the snapshot's problems.

A record's 4 KiB (leadsman.state.codec) bound the rest: at most 146 peers, 680 measures, and 2 MiB of rewards a node.
"""

from msgspec import Struct

from leadsman.state import keys


class NodeLimits(Struct, frozen=True):
    """pod_types: with a reward, of one node.
    problems: named, of one node.
    nodes: in all. Agents' etcd roles keep each to its own prefix, so that only a writer without a role can reach it.
    """

    pod_types: int = 512
    problems: int = 50
    nodes: int = 20_000


class NodeUsage(Struct, frozen=True):
    """How much is kept of one node. dropped: writes of records that were not kept, since the last listing."""

    pod_types: int = 0
    problems: int = 0
    dropped: int = 0


def dropped_from_node(node: str, usage: NodeUsage, limits: NodeLimits) -> str:
    """The problem of a node of which something was dropped."""
    return (
        f"{usage.dropped} or more records of node {node} are ignored: a node may have rewards of {limits.pod_types} "
        f"pod types and {limits.problems} records that cannot be read; delete those under {keys.rewards_prefix(node)} "
        "that no agent wrote, and replace the node's etcd credentials if it was not its agent"
    )


def dropped_nodes(limits: NodeLimits) -> str:
    """The problem of a store with too many nodes."""
    return (
        f"records of more than {limits.nodes} nodes: the nodes beyond are ignored; delete the prefixes of nodes that "
        "do not exist, and give each agent an etcd role on its own prefix"
    )
