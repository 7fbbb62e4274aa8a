"""The round trip between a reference node and each candidate, from the reports of both.

A report counts only while its reporter is fresh and when at least one reply came in its window: a lost probe
is never a delay. Of the two directions the policy takes one, or the larger of those that count.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from enum import IntEnum
from operator import attrgetter

from msgspec import Struct

from clusterstate.records import PeerLatency
from clusterstate.snapshot import Freshness, NodeState
from decision.columns import Column, missing, picked
from decision.freshness import NEVER, fresh_part, fresh_until, kept_while_fresh
from decision.model import Facts
from decision.policy import Direction, Statistic

Windows = Mapping[str, PeerLatency]
"""Node → its window with the reference."""

_NO_WINDOWS: Windows = {}


class Cause(IntEnum):
    """Why there is no delay: an index. Of two directions' causes the larger is told, as it says more."""

    UNMEASURED = 0
    PROVISIONAL = 1
    STALE = 2
    NO_REPLY = 3


class Pairs(Struct, frozen=True):
    """Each candidate stands in one of them. known: round trip in ms; the reference itself is at 0."""

    known: Column
    unknown: Mapping[str, Cause]


class Reports(Struct, frozen=True):
    """Of all nodes. known: round trip in ms. causes: why a node that stands in a report has none."""

    known: Mapping[str, float]
    causes: Mapping[str, Cause]


def between(reference: str, nodes: Sequence[str], facts: Facts) -> Pairs:
    found = reports(reference, facts)
    known = picked(nodes, found.known)
    unknown = dict.fromkeys(missing(nodes, known, found.known), Cause.UNMEASURED)
    unknown.update((node, found.causes[node]) for node in found.causes.keys() & unknown.keys())
    return Pairs(known, unknown)


def reports(reference: str, facts: Facts) -> Reports:
    return kept_while_fresh((reference, facts.policy.delay), lambda: _reports(reference, facts), facts)


def _reports(reference: str, facts: Facts) -> Reports:
    direction = facts.policy.delay.direction
    forward = _NO_WINDOWS if direction is Direction.BACKWARD else _measured_by(reference, facts)
    backward_ms = {} if direction is Direction.FORWARD else _backward_ms(reference, facts)
    known = _worst(_forward_ms(reference, forward, facts), backward_ms)
    known[reference] = 0.0
    unknown = facts.snapshot.nodes.keys() - known.keys()
    backward = _NO_WINDOWS if direction is Direction.FORWARD else _measuring(reference, unknown, facts)
    unknown = (forward.keys() | backward.keys()) - known.keys()
    return Reports(known, _causes(unknown, reference, forward, backward, facts))


def _measured_by(reference: str, facts: Facts) -> Windows:
    state = facts.snapshot.nodes.get(reference)
    return _NO_WINDOWS if state is None or state.latency is None else state.latency.peers


def _measuring(reference: str, nodes: Set[str], facts: Facts) -> Windows:
    windows = ((node, _window(reference, facts.snapshot.nodes[node])) for node in nodes)
    return {node: window for node, window in windows if window is not None}


def _window(reference: str, state: NodeState) -> PeerLatency | None:
    return None if state.latency is None else state.latency.peers.get(reference)


def _forward_ms(reference: str, windows: Windows, facts: Facts) -> dict[str, float]:
    fresh = windows and fresh_until(facts).get(reference, NEVER) > facts.now
    ms = _ms(facts.policy.delay.statistic)
    return {node: rtt for node, window in windows.items() if (rtt := ms(window)) is not None} if fresh else {}


def _backward_ms(reference: str, facts: Facts) -> dict[str, float]:
    statistic = facts.policy.delay.statistic
    ms = _ms(statistic)

    def measured(state: NodeState) -> float | None:
        window = _window(reference, state)
        return None if window is None else ms(window)

    return fresh_part(facts.memo.column("rtt_ms", (reference, statistic), measured, facts.snapshot), facts)


def _ms(statistic: Statistic) -> Callable[[PeerLatency], float | None]:
    return attrgetter(f"{statistic}_ms")


def _worst(forward: dict[str, float], backward: dict[str, float]) -> dict[str, float]:
    both = forward | backward
    for node in forward.keys() & backward.keys():
        both[node] = max(forward[node], backward[node])
    return both


def _causes(unknown: Set[str], reference: str, forward: Windows, backward: Windows, facts: Facts) -> dict[str, Cause]:
    """Of the unknown nodes that stand in a report, why it does not count."""
    causes = {node: _cause(reference, forward[node], facts) for node in forward.keys() & unknown}
    for node in backward.keys() & unknown:
        causes[node] = max(causes.get(node, Cause.UNMEASURED), _cause(node, backward[node], facts))
    return causes


def _cause(reporter: str, window: PeerLatency, facts: Facts) -> Cause:
    """Why this window of the reporter does not count."""
    freshness = facts.snapshot.nodes[reporter].freshness(facts.now)
    if freshness is Freshness.FRESH:
        return Cause.UNMEASURED if window.received else Cause.NO_REPLY
    return Cause.PROVISIONAL if freshness is Freshness.PROVISIONAL else Cause.STALE
