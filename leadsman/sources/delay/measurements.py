"""Gathers all measurements of agents and other sources as numbers for a fit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from leadsman.decision.policy import Statistic
from leadsman.network.measured_pairs import MAX_RTT_MS, MIN_RTT_MS, Floats, Indices, MeasuredPairs, build_pairs
from leadsman.network.plausibility import Reports
from leadsman.state.records import Identity, PeerLatency
from leadsman.state.snapshot import Freshness, NodeState, Snapshot

_Measurement = tuple[str, str, float]
"""Source, target, round trip in ms."""


class MeasurementView(Protocol):
    """A DelayView whose measurements can be listed."""

    @property
    def fresh_until(self) -> float: ...

    def measurements(self) -> Iterable[_Measurement]: ...


class Measurements(NamedTuple):
    """All fresh measurements, by node number.

    nodes: names in order; every other field has nodes by number.
    source, target, rtt_ms: each measurement as it was read.
    pairs: the measurements joined by pair.
    groups: racks, then zones; -1 unknown.
    sites: (address, zone, rack) of each node, "" unknown; a node whose site changes was set up again elsewhere.
    unanswered: number of fresh agents that probed each node without a reply.
    """

    nodes: tuple[str, ...]
    source: Indices
    target: Indices
    rtt_ms: Floats
    pairs: MeasuredPairs
    groups: tuple[Indices, ...]
    sites: tuple[tuple[str, str, str], ...]
    unanswered: Indices

    @property
    def reports(self) -> Reports:
        """The measurements with logarithms, in the same order."""
        log_ms = np.log(np.clip(self.rtt_ms, MIN_RTT_MS, MAX_RTT_MS)).astype(np.float32)
        return Reports(len(self.nodes), self.source, self.target, log_ms, self.unanswered)

    def without(self, left_out: NDArray[np.bool_]) -> "Measurements":
        """The measurements that the mask does not select, of the same nodes."""
        source, target, rtt_ms = self.source[~left_out], self.target[~left_out], self.rtt_ms[~left_out]
        pairs = _pairs(len(self.nodes), source, target, rtt_ms)
        return self._replace(source=source, target=target, rtt_ms=rtt_ms, pairs=pairs)


def gather_measurements(
    snapshot: Snapshot, now: float, statistic: Statistic, views: Sequence[MeasurementView] = ()
) -> Measurements:
    """Gathers what fresh reports and views hold. Its nodes are those that report or that replied to a probe."""
    measurements = [each for view in views if view.fresh_until > now for each in view.measurements()]
    fresh = {node: state for node, state in snapshot.nodes.items() if state.freshness(now) is Freshness.FRESH}
    measurements += _agent_measurements(fresh, attrgetter(f"{statistic}_ms"))
    nodes = tuple(sorted(fresh.keys() | {node for source, target, _ in measurements for node in (source, target)}))
    number = {node: at for at, node in enumerate(nodes)}
    source = np.array([number[one] for one, _, _ in measurements], np.intp)
    target = np.array([number[other] for _, other, _ in measurements], np.intp)
    rtt_ms = np.array([ms for _, _, ms in measurements], float)
    sites = tuple(_node_site(fresh.get(node)) for node in nodes)
    pairs = _pairs(len(nodes), source, target, rtt_ms)
    unanswered = _count_unanswered(fresh, number)
    return Measurements(nodes, source, target, rtt_ms, pairs, _racks_and_zones(sites), sites, unanswered)


def _pairs(nodes: int, source: Indices, target: Indices, rtt_ms: Floats) -> MeasuredPairs:
    return build_pairs(nodes, source, target, np.maximum(rtt_ms, MIN_RTT_MS))


def _agent_measurements(
    states: Mapping[str, NodeState], ms: Callable[[PeerLatency], float | None]
) -> Iterator[_Measurement]:
    for node, state in states.items():
        for peer, window in state.latency.peers.items() if state.latency else ():
            if peer != node and (rtt_ms := ms(window)) is not None:
                yield node, peer, rtt_ms


def _count_unanswered(states: Mapping[str, NodeState], number: Mapping[str, int]) -> Indices:
    counts = np.zeros(len(number), np.intp)
    for state in states.values():
        for peer, window in state.latency.peers.items() if state.latency else ():
            if window.sent and not window.received and peer in number:
                counts[number[peer]] += 1
    return counts


def _node_site(state: NodeState | None) -> tuple[str, str, str]:
    identity: Identity | None = state.identity if state else None
    return (identity.address, identity.zone, identity.rack) if identity else ("", "", "")


def _racks_and_zones(sites: Sequence[tuple[str, str, str]]) -> tuple[Indices, ...]:
    """A rack's name counts within its zone."""
    racks = _numbered([(zone, rack) if rack else None for _, zone, rack in sites])
    return racks, _numbered([zone or None for _, zone, _ in sites])


def _numbered(groups: Sequence[object]) -> Indices:
    number = {group: at for at, group in enumerate(dict.fromkeys(group for group in groups if group is not None))}
    return np.array([number.get(group, -1) for group in groups], np.intp)
