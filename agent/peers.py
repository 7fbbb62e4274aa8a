"""Whom to probe: the agents that the state names, or a static list. Pure.

At most k peers: the k that follow this node on a ring of name hashes. So every node probes k and, spread evenly,
is probed by about k, whatever the size of the cluster; and a node that comes or goes changes one peer of k nodes.
"""

from bisect import bisect
from collections.abc import Iterable
from hashlib import blake2b

from agent.rtt.peer import Peer
from clusterstate.keys import check_node_name
from clusterstate.snapshot import Snapshot


class BadPeers(ValueError):
    """The static list cannot be used. The text names the line."""


def registered(snapshot: Snapshot) -> list[Peer]:
    """Every agent that holds its node now."""
    identities = ((name, state.identity) for name, state in snapshot.nodes.items())
    return [Peer(name, who.address, who.zone, who.rack) for name, who in identities if who is not None]


def parse(text: str) -> list[Peer]:
    """`name address [zone [rack]]` a line; # begins a comment. BadPeers names the line and what is wrong."""
    lines = ((number, line.partition("#")[0].split()) for number, line in enumerate(text.splitlines(), start=1))
    peers = [_parsed(number, fields) for number, fields in lines if fields]
    names = [peer.name for peer in peers]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadPeers(f"named more than once: {', '.join(sorted(twice))}")
    return peers


def choose(own_name: str, candidates: Iterable[Peer], k: int) -> dict[str, Peer]:
    """name → the k peers that follow `own_name` on the ring; all of them when there are no more than k."""
    ring = sorted((peer for peer in candidates if peer.name != own_name), key=lambda peer: _place(peer.name))
    start = bisect([_place(peer.name) for peer in ring], _place(own_name))
    return {peer.name: peer for peer in (ring[start:] + ring[:start])[:k]}


def _parsed(number: int, fields: list[str]) -> Peer:
    if not 2 <= len(fields) <= 4:
        raise BadPeers(f"line {number}: {len(fields)} fields; want: name address [zone [rack]]")
    try:
        return Peer(check_node_name(fields[0]), *fields[1:])
    except ValueError as error:
        raise BadPeers(f"line {number}: {error}") from error


def _place(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8).digest()
