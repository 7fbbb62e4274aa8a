"""Addresses of nodes, from what a watch tells."""

from apiserver.changes import Change, Kind
from apiserver.objects import Address, Metadata, Node, NodeStatus
from places.addresses import ApiAddresses


def node(name, *addresses):
    found = tuple(Address(type="InternalIP", address=one) for one in addresses)
    return Node(Metadata(name=name), status=NodeStatus(addresses=(*found, Address(type="Hostname", address=name))))


def followed(*changes):
    nodes = ApiAddresses(None)
    nodes.take([Change(*change) for change in changes])
    return dict(nodes.current)


def test_an_address_is_known_by_its_node():
    found = followed((Kind.ADDED, node("a", "10.0.0.1", "fd00::1")), (Kind.ADDED, node("b")))
    assert found == {"10.0.0.1": "a", "fd00::1": "a"}


def test_a_changed_address_replaces_the_old():
    before, after = node("a", "10.0.0.1"), node("a", "10.0.0.2")
    assert followed((Kind.ADDED, before), (Kind.MODIFIED, after, before)) == {"10.0.0.2": "a"}


def test_a_node_that_left_is_forgotten():
    gone = node("a", "10.0.0.1")
    assert followed((Kind.ADDED, gone), (Kind.DELETED, gone, gone)) == {}


def test_an_address_that_another_node_has_by_now_stays_the_others():
    old, new = node("a", "10.0.0.1"), node("b", "10.0.0.1")
    assert followed((Kind.ADDED, old), (Kind.ADDED, new), (Kind.DELETED, old, old)) == {"10.0.0.1": "b"}


def test_a_heartbeat_makes_no_new_table():
    nodes = ApiAddresses(None)
    nodes.take([Change(Kind.ADDED, node("a", "10.0.0.1"))])
    before = nodes.current
    nodes.take([Change(Kind.MODIFIED, node("a", "10.0.0.1"), node("a", "10.0.0.1"))])
    assert nodes.current is before
