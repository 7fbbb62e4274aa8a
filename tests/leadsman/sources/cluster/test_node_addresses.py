"""Addresses of nodes, from what a watch tells."""

from typing import Any

from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Node, NodeAddress, NodeStatus, ObjectMeta
from leadsman.sources.cluster.node_followers import NodeAddressFollower

NO_CLIENT: Any = None
"""Nothing is listed here: the tests hand in the changes."""


def node(name, *addresses):
    found = tuple(NodeAddress(type="InternalIP", address=one) for one in addresses)
    return Node(
        ObjectMeta(name=name), status=NodeStatus(addresses=(*found, NodeAddress(type="Hostname", address=name)))
    )


def followed(*changes):
    nodes = NodeAddressFollower(NO_CLIENT)
    nodes.apply_changes([ObjectChange(*change) for change in changes])
    return dict(nodes.current)


def test_addresses_follow_their_nodes() -> None:
    """An address that another node has by now stays the other's."""
    before, after, other = node("a", "10.0.0.1"), node("a", "10.0.0.2"), node("b", "10.0.0.1")
    added = (ChangeType.ADDED, before)
    assert followed(added, (ChangeType.MODIFIED, after, before)) == {"10.0.0.2": "a"}
    assert followed(added, (ChangeType.DELETED, before, before)) == {}
    assert followed(added, (ChangeType.ADDED, other), (ChangeType.DELETED, before, before)) == {"10.0.0.1": "b"}
