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


def test_a_changed_address_replaces_the_old() -> None:
    before, after = node("a", "10.0.0.1"), node("a", "10.0.0.2")
    assert followed((ChangeType.ADDED, before), (ChangeType.MODIFIED, after, before)) == {"10.0.0.2": "a"}


def test_a_node_that_left_is_forgotten() -> None:
    gone = node("a", "10.0.0.1")
    assert followed((ChangeType.ADDED, gone), (ChangeType.DELETED, gone, gone)) == {}


def test_an_address_that_another_node_has_by_now_stays_the_others() -> None:
    old, new = node("a", "10.0.0.1"), node("b", "10.0.0.1")
    assert followed((ChangeType.ADDED, old), (ChangeType.ADDED, new), (ChangeType.DELETED, old, old)) == {
        "10.0.0.1": "b"
    }
