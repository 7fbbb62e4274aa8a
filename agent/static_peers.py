"""Reads a static list of peers, which replaces the ring in etcd. Pure.

At most k of them are probed: those that follow this node on a ring of name hashes, so that with the same list
everywhere every node probes k and is probed by about k.
"""

from bisect import bisect
from collections.abc import Iterable

from agent.rtt.peer import Peer
from leadsman.state.keys import check_node_name, ring_position


class InvalidPeerList(ValueError):
    """The static list cannot be used. The text names the line and what is wrong."""


def parse_peers(text: str) -> list[Peer]:
    """The peers in a text of `name address [zone [rack]]` a line, where # begins a comment. InvalidPeerList."""
    lines = ((number, line.partition("#")[0].split()) for number, line in enumerate(text.splitlines(), start=1))
    peers = [_parsed(number, fields) for number, fields in lines if fields]
    names = [peer.name for peer in peers]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidPeerList(f"listed more than once: {', '.join(sorted(twice))}")
    return peers


def select_peers(own_name: str, candidates: Iterable[Peer], k: int) -> dict[str, Peer]:
    """name → the k peers that follow `own_name` on the ring; all of them when there are no more than k."""
    ring = sorted((peer for peer in candidates if peer.name != own_name), key=lambda peer: ring_position(peer.name))
    start = bisect([ring_position(peer.name) for peer in ring], ring_position(own_name))
    return {peer.name: peer for peer in (ring[start:] + ring[:start])[:k]}


def _parsed(number: int, fields: list[str]) -> Peer:
    if not 2 <= len(fields) <= 4:
        raise InvalidPeerList(f"line {number}: {len(fields)} fields; must be: name address [zone [rack]]")
    try:
        return Peer(check_node_name(fields[0]), *fields[1:])
    except ValueError as error:
        raise InvalidPeerList(f"line {number}: {error}") from error
