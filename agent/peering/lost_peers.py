"""Remembers peers that fell silent and then left the ring, so that they are probed on for a while. Pure.

A node that dies leaves the ring when its lease expires. Whether it is dead may be decided later than that, when the API
server was away meanwhile; and a node that lives and only cannot reach etcd answers its probes all the time.
"""

from collections.abc import Collection, Iterable

from agent.rtt.peer import Peer

LOST_PEER_SECONDS = 300.0
MAX_LOST_PEERS = 8
"""As many more peers at most as an agent probes on request."""


class LostPeers:
    def __init__(self) -> None:
        self._probed: dict[str, Peer] = {}
        self._lost: dict[str, tuple[Peer, float]] = {}

    def update(self, selected: Iterable[Peer], silent: Collection[str], now: float) -> list[Peer]:
        """The lost peers to probe besides the `selected` ones from now on. silent: peers that stopped answering."""
        by_name = {peer.name: peer for peer in selected}
        for name, peer in self._probed.items():
            if name in silent and name not in by_name:
                self._lost.setdefault(name, (peer, now + LOST_PEER_SECONDS))
        kept = [(n, entry) for n, entry in self._lost.items() if n not in by_name and entry[1] > now]
        self._lost = dict(kept[-MAX_LOST_PEERS:])
        lost = [peer for peer, _ in self._lost.values()]
        self._probed = by_name | {peer.name: peer for peer in lost}
        return lost
