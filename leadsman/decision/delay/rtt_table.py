"""The round trip between a reference node and every other: measured, else why not, else estimated.

A report counts only while its reporter is fresh and when at least one reply came in its window: a lost probe is never
a delay. Of the two directions the policy takes one, or the larger of those that count. What our agents did not measure,
the other sources may know, in their order; the first that says anything about a pair decides on it.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from enum import IntEnum
from functools import partial
from operator import attrgetter

from msgspec import Struct

from leadsman.decision.delay.views import DelayView, EstimatedRow, SourceRow
from leadsman.decision.freshness import (
    NEVER_FRESH,
    cached_while_fresh,
    fresh_nodes,
    fresh_only,
    fresh_until,
    not_fresh_nodes,
)
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Direction, Statistic
from leadsman.state.records import PeerLatency
from leadsman.state.snapshot import Freshness, NodeState


class DelayCause(IntEnum):
    """Why a node may not be within a bound. Of several causes the larger is told, as it says more."""

    UNMEASURED = 0
    PROVISIONAL = 1
    STALE = 2
    ESTIMATE_UNSURE = 3
    """The bound lies within the interval of the estimate, or above its low end at least."""
    ESTIMATE_OVER = 4
    """The interval of the estimate lies above the bound."""
    NO_REPLY = 5
    MEASURED_OVER = 6
    """Measured."""


class MeasuredRow(Struct, frozen=True):
    """Of all nodes. known: measured round trip in ms, the reference itself at 0. causes: why a node of which there is a
    report has none: UNMEASURED, PROVISIONAL, STALE or NO_REPLY."""

    rtt_ms: Mapping[str, float]
    causes: Mapping[str, DelayCause]


def measured_row(reference: str, facts: DecisionInputs) -> MeasuredRow:
    return cached_while_fresh(
        ("reports", reference, facts.policy.delay), lambda: _make_measured_row(reference, facts), facts
    )


def estimated_row(reference: str, facts: DecisionInputs) -> EstimatedRow:
    """Of all nodes, also those that were measured. It says nothing about whether a node can be reached."""
    estimates = facts.estimates
    if estimates is None:
        return EstimatedRow()
    return facts.cache.per_object(estimates, reference, lambda: estimates.row(reference))


def live_nodes(facts: DecisionInputs) -> Set[str]:
    """The nodes that somebody vouches for now: an agent's fresh heartbeat, or another source that is fresh. An estimate
    counts only between two of them: of a silent node nobody knows that it can be reached at all."""
    return cached_while_fresh("alive", lambda: _find_live_nodes(facts), facts)


def _find_live_nodes(facts: DecisionInputs) -> Set[str]:
    return frozenset(fresh_nodes(facts)).union(*(source.nodes for source in fresh_views(facts)))


def fresh_views(facts: DecisionInputs) -> Iterator[DelayView]:
    return (source for source in facts.delay_views if facts.now < source.fresh_until)


def source_row(source: DelayView, reference: str, facts: DecisionInputs) -> SourceRow:
    return facts.cache.per_object(source, reference, lambda: source.row(reference))


def _make_measured_row(reference: str, facts: DecisionInputs) -> MeasuredRow:
    found = _agent_row(reference, facts)
    for source in fresh_views(facts):
        found = _with_source(found, source_row(source, reference, facts), facts.policy.delay.direction)
    return found


def _with_source(found: MeasuredRow, row: SourceRow, direction: Direction) -> MeasuredRow:
    """What was found, and what the row adds on pairs of which nobody measured or missed anything yet."""
    silent = {node for node, cause in found.causes.items() if cause is DelayCause.NO_REPLY}
    rtts = _by_direction(row, direction)
    added = {node: rtt_ms for node, rtt_ms in rtts.items() if node not in found.rtt_ms and node not in silent}
    known = {**found.rtt_ms, **added} if added else found.rtt_ms
    causes = {node: cause for node, cause in found.causes.items() if node not in added}
    causes.update((node, DelayCause.NO_REPLY) for node in row.no_reply if node not in known)
    return MeasuredRow(known, causes)


def _by_direction(row: SourceRow, direction: Direction) -> Mapping[str, float]:
    if direction is Direction.WORST:
        return _worst(row.forward, row.backward)
    return row.forward if direction is Direction.FORWARD else row.backward


def _agent_row(reference: str, facts: DecisionInputs) -> MeasuredRow:
    direction, statistic = facts.policy.delay.direction, facts.policy.delay.statistic
    causes: dict[str, DelayCause] = {}
    forward = {} if direction is Direction.BACKWARD else _forward(reference, statistic, causes, facts)
    backward = {} if direction is Direction.FORWARD else _backward(reference, statistic, causes, facts)
    known = _worst(forward, backward)
    known[reference] = 0.0
    return MeasuredRow(known, {node: cause for node, cause in causes.items() if node not in known})


def _worst(forward: Mapping[str, float], backward: Mapping[str, float]) -> dict[str, float]:
    both = {**forward, **backward}
    for node in forward.keys() & backward.keys():
        both[node] = max(forward[node], backward[node])
    return both


def _forward(
    reference: str, statistic: Statistic, causes: dict[str, DelayCause], facts: DecisionInputs
) -> dict[str, float]:
    """By the reference. Notes why its other windows do not count."""
    state = facts.snapshot.nodes.get(reference)
    windows = {} if state is None or state.latency is None else state.latency.peers
    rtt, fresh = rtt_getter(statistic), fresh_until(facts).get(reference, NEVER_FRESH) > facts.now
    known = {node: rtt_ms for node, window in windows.items() if (rtt_ms := rtt(window)) is not None} if fresh else {}
    _note_causes(
        causes, ((node, missing_cause(reference, windows[node], facts)) for node in windows.keys() - known.keys())
    )
    return known


def _backward(
    reference: str, statistic: Statistic, causes: dict[str, DelayCause], facts: DecisionInputs
) -> dict[str, float]:
    """By each of the others. Notes why windows with the reference do not count."""
    column, snapshot = facts.cache.per_node, facts.snapshot
    measured = column("rtt_ms", (reference, statistic), partial(_rtt_ms, reference, rtt_getter(statistic)), snapshot)
    without = column(
        "no rtt_ms", (reference, statistic), partial(_window_without_rtt, reference, rtt_getter(statistic)), snapshot
    )
    old = [node for node in not_fresh_nodes(facts) if node in measured or node in without]
    _note_causes(causes, ((node, missing_cause(node, window, facts)) for node, window in without.items()))
    _note_causes(causes, ((node, _stale_cause(node, facts)) for node in old))
    return fresh_only(measured, facts)


def _note_causes(causes: dict[str, DelayCause], found: Iterator[tuple[str, DelayCause]]) -> None:
    for node, why in found:
        causes[node] = max(causes.get(node, DelayCause.UNMEASURED), why)


def peer_window(reference: str, state: NodeState) -> PeerLatency | None:
    return None if state.latency is None else state.latency.peers.get(reference)


def _rtt_ms(reference: str, of: Callable[[PeerLatency], float | None], state: NodeState) -> float | None:
    found = peer_window(reference, state)
    return None if found is None else of(found)


def _window_without_rtt(
    reference: str, of: Callable[[PeerLatency], float | None], state: NodeState
) -> PeerLatency | None:
    found = peer_window(reference, state)
    return None if found is None or of(found) is not None else found


def rtt_getter(statistic: Statistic) -> Callable[[PeerLatency], float | None]:
    return attrgetter(f"{statistic}_ms")


def missing_cause(reporter: str, window: PeerLatency, facts: DecisionInputs) -> DelayCause:
    """Why this window of the reporter does not count."""
    if facts.snapshot.nodes[reporter].freshness(facts.now) is not Freshness.FRESH:
        return _stale_cause(reporter, facts)
    return DelayCause.UNMEASURED if window.received else DelayCause.NO_REPLY


def _stale_cause(reporter: str, facts: DecisionInputs) -> DelayCause:
    provisional = facts.snapshot.nodes[reporter].freshness(facts.now) is Freshness.PROVISIONAL
    return DelayCause.PROVISIONAL if provisional else DelayCause.STALE
