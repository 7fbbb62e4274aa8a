"""The round trip between a reference node and each candidate, from the reports of both.

A report counts only while its reporter is fresh and when at least one reply came in its window: a lost probe
is never a delay. Of the two directions the policy takes one, or the larger of those that count.
"""

from collections.abc import Mapping, Sequence, Set
from enum import IntEnum
from operator import attrgetter

from msgspec import Struct

from clusterstate.records import PeerLatency
from clusterstate.snapshot import Freshness
from decision.columns import Column, missing, picked
from decision.freshness import NEVER, fresh_until, kept_while_fresh
from decision.model import Facts
from decision.policy import Direction

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


class _Reports(Struct, frozen=True):
    """Of all nodes. known: round trip in ms. causes: why a node that stands in a report has none."""

    known: Mapping[str, float]
    causes: Mapping[str, Cause]


def between(reference: str, nodes: Sequence[str], facts: Facts) -> Pairs:
    reports = kept_while_fresh((reference, facts.policy.delay), lambda: _reports(reference, facts), facts)
    known = picked(nodes, reports.known)
    unknown = dict.fromkeys(missing(nodes, known, reports.known), Cause.UNMEASURED)
    unknown.update((node, reports.causes[node]) for node in reports.causes.keys() & unknown.keys())
    return Pairs(known, unknown)


def _reports(reference: str, facts: Facts) -> _Reports:
    direction = facts.policy.delay.direction
    forward = _NO_WINDOWS if direction is Direction.BACKWARD else _measured_by(reference, facts)
    backward = _NO_WINDOWS if direction is Direction.FORWARD else _measuring(reference, facts)
    known = _worst(_forward_ms(reference, forward, facts), _backward_ms(backward, facts))
    known[reference] = 0.0
    unknown = (forward.keys() | backward.keys()) - known.keys()
    return _Reports(known, _causes(unknown, reference, forward, backward, facts))


def _measured_by(reference: str, facts: Facts) -> Windows:
    state = facts.snapshot.nodes.get(reference)
    return _NO_WINDOWS if state is None or state.latency is None else state.latency.peers


def _measuring(reference: str, facts: Facts) -> Windows:
    return {
        node: latency.peers[reference]
        for node, state in facts.snapshot.nodes.items()
        if (latency := state.latency) is not None and reference in latency.peers
    }


def _forward_ms(reference: str, windows: Windows, facts: Facts) -> dict[str, float]:
    fresh = windows and fresh_until(facts).get(reference, NEVER) > facts.now
    ms = attrgetter(f"{facts.policy.delay.statistic}_ms")
    return {node: rtt for node, window in windows.items() if (rtt := ms(window)) is not None} if fresh else {}


def _backward_ms(windows: Windows, facts: Facts) -> dict[str, float]:
    if not windows:
        return {}
    ms, until, now = attrgetter(f"{facts.policy.delay.statistic}_ms"), fresh_until(facts), facts.now
    return {node: rtt for node, window in windows.items() if until[node] > now and (rtt := ms(window)) is not None}


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
