"""Finds dead links: an agent probes a node that itself reports, and no probe of the window gets a reply.

Each direction is a link of its own: where A hears nothing of B, an answer to B's probes does not mend it. A link to a
node that does not report is not counted: then the node is what is down, and other checks say so.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from prometheus_client import Metric

from leadsman.runtime.scrape import gauge
from leadsman.state.records import Latency, PeerLatency
from leadsman.state.snapshot import Freshness, Snapshot

LEAST_PROBES = 3
"""Probes below which silence says nothing: any network loses one or two."""


class DeadLink(Struct, frozen=True):
    """A direction without a reply. back_rtt_ms: the other way; null: lost too, or not probed. text: in words."""

    source: str
    target: str
    sent: int
    is_back_lost: bool
    back_rtt_ms: float | None
    text: str


def _dead_link(source: str, target: str, sent: int, back: PeerLatency | None) -> DeadLink:
    """Makes one. back: what the target measures to the source; None: it does not probe it."""
    is_back_lost, back_ms = back is not None and is_unanswered(back), back.p50_ms if back else None
    other_way = ", nor the other way" if is_back_lost else f"; the other way {back_ms:.3g} ms" if back_ms else ""
    return DeadLink(
        source, target, sent, is_back_lost, back_ms, f"{source} → {target}: no reply, 0 of {sent}{other_way}"
    )


def is_unanswered(window: PeerLatency) -> bool:
    """Tells whether so many probes were lost that the link is dead."""
    return not window.received and window.sent >= LEAST_PROBES


class DeadLinkFinder:
    """Finds the dead links of a snapshot. It looks at a node's windows again only when the node reported new ones: at
    5,000 nodes there are 165,000, and a scrape may not keep decisions waiting for them."""

    def __init__(self) -> None:
        self._unanswered: dict[str, tuple[Latency, Sequence[str]]] = {}

    def find(self, snapshot: Snapshot, now: float) -> list[DeadLink]:
        """Returns those that are dead in both directions first, then by name. now: monotonic seconds."""
        found, fresh = self._found(snapshot, now)
        links = [
            _dead_link(name, peer, fresh[name].peers[peer].sent, fresh[peer].peers.get(name)) for name, peer in found
        ]
        return sorted(links, key=lambda link: (not link.is_back_lost, link.source, link.target))

    def families(self, snapshot: Snapshot, now: float) -> Iterator[Metric]:
        """Makes the metrics of one scrape."""
        dead = "Directions between two reporting nodes of which every probe of the window was lost."
        yield gauge("leadsman_dead_links", dead, len(self._found(snapshot, now)[0]))

    def _found(self, snapshot: Snapshot, now: float) -> tuple[list[tuple[str, str]], Mapping[str, Latency]]:
        """Returns the dead links, from a node to its peer, and what fresh nodes report."""
        fresh = {
            name: state.latency
            for name, state in snapshot.nodes.items()
            if state.latency and state.freshness(now) is Freshness.FRESH
        }
        self._unanswered = {name: self._unanswered_of(name, latency) for name, latency in fresh.items()}
        return [(name, peer) for name, (_, peers) in self._unanswered.items() for peer in peers if peer in fresh], fresh

    def _unanswered_of(self, name: str, latency: Latency) -> tuple[Latency, Sequence[str]]:
        known = self._unanswered.get(name)
        if known is not None and known[0] is latency:
            return known
        return latency, [peer for peer, window in latency.peers.items() if is_unanswered(window)]
