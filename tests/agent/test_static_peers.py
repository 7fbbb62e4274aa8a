"""Whom an agent probes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rtt.peer import Peer
from agent.settings import InvalidPeerList, parse_peers, select_peers

names = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), min_size=1, max_size=30, unique=True)


def cluster(count: int) -> list[Peer]:
    return [Peer(f"node-{number:05}", f"10.0.{number // 256}.{number % 256}") for number in range(count)]


@given(names, st.integers(1, 20))
def test_a_node_probes_k_others_and_never_itself(members: list[str], k: int) -> None:
    peers = [Peer(name, "10.0.0.1") for name in members]
    chosen = select_peers(members[0], peers, k)
    assert len(chosen) == min(k, len(members) - 1)
    assert members[0] not in chosen


def test_every_node_of_1000_is_probed_by_exactly_k() -> None:
    peers = cluster(1000)
    received = Counter(name for peer in peers for name in select_peers(peer.name, peers, 16))
    assert set(received.values()) == {16}


def test_a_node_that_joins_changes_one_peer_of_at_most_k_nodes() -> None:
    before, after = cluster(200), [*cluster(200), Peer("node-new", "10.9.9.9")]
    moved = [p for p in before if select_peers(p.name, before, 16).keys() != select_peers(p.name, after, 16).keys()]
    assert len(moved) == 16
    for peer in moved:
        assert len(select_peers(peer.name, before, 16).keys() - select_peers(peer.name, after, 16).keys()) == 1


def test_a_static_list_is_read_with_comments_and_optional_fields() -> None:
    text = "# edge\nedge-1 10.0.0.1 zone-a rack-1\n\nedge-2 fd00::2  # no zone\n"
    assert parse_peers(text) == [Peer("edge-1", "10.0.0.1", "zone-a", "rack-1"), Peer("edge-2", "fd00::2")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("edge-1", "line 1: 1 fields; must be: name address"),
        ("ok 10.0.0.1\nEdge 10.0.0.2", "line 2: node name 'Edge'"),
        ("a 10.0.0.1 z r extra", "line 1: 5 fields"),
        ("a 10.0.0.1\na 10.0.0.2", "listed more than once: a"),
    ],
)
def test_a_bad_list_is_refused_naming_the_line(text: str, message: str) -> None:
    with pytest.raises(InvalidPeerList, match=message):
        parse_peers(text)
