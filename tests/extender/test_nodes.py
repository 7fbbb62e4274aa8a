"""Roles and addresses of nodes, from what a watch tells."""

from apiserver.changes import Change, Kind
from apiserver.objects import Address, Metadata, Node, NodeStatus
from extender.nodes import KubeNodes


def node(name, role=None, *addresses):
    labels = {} if role is None else {"kubernetes.io/role": role}
    found = tuple(Address(type="InternalIP", address=one) for one in addresses)
    status = NodeStatus(addresses=(*found, Address(type="Hostname", address=name)))
    return Node(Metadata(name=name, labels=labels), status=status)


def followed(*changes):
    nodes = KubeNodes(None)
    nodes.take([Change(*change) for change in changes])
    return dict(nodes.current), dict(nodes.addresses)


def test_roles_and_addresses_are_known_by_name():
    assert followed((Kind.ADDED, node("a", "cloud", "10.0.0.1", "fd00::1")), (Kind.ADDED, node("b"))) == (
        {"a": "cloud"},
        {"10.0.0.1": "a", "fd00::1": "a"},
    )


def test_a_changed_label_and_address_replace_the_old():
    before, after = node("a", "cloud", "10.0.0.1"), node("a", "edge", "10.0.0.2")
    assert followed((Kind.ADDED, before), (Kind.MODIFIED, after, before)) == ({"a": "edge"}, {"10.0.0.2": "a"})


def test_a_label_taken_away_is_no_role():
    before = node("a", "cloud")
    assert followed((Kind.ADDED, before), (Kind.MODIFIED, node("a"), before))[0] == {}


def test_a_node_that_left_is_forgotten():
    gone = node("a", "cloud", "10.0.0.1")
    assert followed((Kind.ADDED, gone), (Kind.DELETED, gone, gone)) == ({}, {})


def test_an_address_that_another_node_has_by_now_stays_the_others():
    old, new = node("a", None, "10.0.0.1"), node("b", None, "10.0.0.1")
    assert followed((Kind.ADDED, old), (Kind.ADDED, new), (Kind.DELETED, old, old))[1] == {"10.0.0.1": "b"}


def test_a_heartbeat_makes_no_new_tables():
    before = node("a", "cloud", "10.0.0.1")
    nodes = KubeNodes(None)
    nodes.take([Change(Kind.ADDED, before)])
    tables = nodes.current, nodes.addresses
    nodes.take([Change(Kind.MODIFIED, node("a", "cloud", "10.0.0.1"), before)])
    assert (nodes.current, nodes.addresses) == tables
    assert nodes.current is tables[0]
