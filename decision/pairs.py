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

from clusterstate.records import PeerLatency
from clusterstate.snapshot import Freshness, NodeState
from decision.freshness import NEVER, fresh_nodes, fresh_part, fresh_until, kept_while_fresh, old_nodes
from decision.model import Facts
from decision.policy import Direction, Statistic
from decision.sources import Delays, EstimatedRow, Row


class Cause(IntEnum):
    """Why a node may not be within a bound. Of several causes the larger is told, as it says more."""

    UNMEASURED = 0
    PROVISIONAL = 1
    STALE = 2
    UNSURE = 3
    """The bound lies within the interval of the estimate, or above its low end at least."""
    FAR = 4
    """The interval of the estimate lies above the bound."""
    NO_REPLY = 5
    OVER = 6
    """Measured."""


class Reports(Struct, frozen=True):
    """Of all nodes. known: measured round trip in ms, the reference itself at 0. causes: why a node of which there is a
    report has none: UNMEASURED, PROVISIONAL, STALE or NO_REPLY."""

    known: Mapping[str, float]
    causes: Mapping[str, Cause]


def reports(reference: str, facts: Facts) -> Reports:
    return kept_while_fresh(("reports", reference, facts.policy.delay), lambda: _reports(reference, facts), facts)


def estimated(reference: str, facts: Facts) -> EstimatedRow:
    """Of all nodes, also those that were measured. It says nothing about whether a node can be reached."""
    estimates = facts.estimates
    if estimates is None:
        return EstimatedRow()
    return facts.memo.row(estimates, reference, lambda: estimates.row(reference))


def alive(facts: Facts) -> Set[str]:
    """The nodes that somebody vouches for now: an agent's fresh heartbeat, or another source that is fresh. An estimate
    counts only between two of them: of a silent node nobody knows that it can be reached at all."""
    return kept_while_fresh("alive", lambda: _alive(facts), facts)


def _alive(facts: Facts) -> Set[str]:
    return frozenset(fresh_nodes(facts)).union(*(source.nodes for source in fresh_delays(facts)))


def fresh_delays(facts: Facts) -> Iterator[Delays]:
    return (source for source in facts.delays if facts.now < source.fresh_until)


def row_of(source: Delays, reference: str, facts: Facts) -> Row:
    return facts.memo.row(source, reference, lambda: source.row(reference))


def _reports(reference: str, facts: Facts) -> Reports:
    found = _agents(reference, facts)
    for source in fresh_delays(facts):
        found = _filled(found, row_of(source, reference, facts), facts.policy.delay.direction)
    return found


def _filled(found: Reports, row: Row, direction: Direction) -> Reports:
    """What was found, and what the row adds on pairs of which nobody measured or missed anything yet."""
    silent = {node for node, cause in found.causes.items() if cause is Cause.NO_REPLY}
    rtts = _both(row, direction)
    added = {node: rtt_ms for node, rtt_ms in rtts.items() if node not in found.known and node not in silent}
    known = {**found.known, **added} if added else found.known
    causes = {node: cause for node, cause in found.causes.items() if node not in added}
    causes.update((node, Cause.NO_REPLY) for node in row.no_reply if node not in known)
    return Reports(known, causes)


def _both(row: Row, direction: Direction) -> Mapping[str, float]:
    if direction is Direction.WORST:
        return _worst(row.forward, row.backward)
    return row.forward if direction is Direction.FORWARD else row.backward


def _agents(reference: str, facts: Facts) -> Reports:
    direction, statistic = facts.policy.delay.direction, facts.policy.delay.statistic
    causes: dict[str, Cause] = {}
    forward = {} if direction is Direction.BACKWARD else _forward(reference, statistic, causes, facts)
    backward = {} if direction is Direction.FORWARD else _backward(reference, statistic, causes, facts)
    known = _worst(forward, backward)
    known[reference] = 0.0
    return Reports(known, {node: cause for node, cause in causes.items() if node not in known})


def _worst(forward: Mapping[str, float], backward: Mapping[str, float]) -> dict[str, float]:
    both = {**forward, **backward}
    for node in forward.keys() & backward.keys():
        both[node] = max(forward[node], backward[node])
    return both


def _forward(reference: str, statistic: Statistic, causes: dict[str, Cause], facts: Facts) -> dict[str, float]:
    """By the reference. Notes why its other windows do not count."""
    state = facts.snapshot.nodes.get(reference)
    windows = {} if state is None or state.latency is None else state.latency.peers
    rtt, fresh = ms(statistic), fresh_until(facts).get(reference, NEVER) > facts.now
    known = {node: rtt_ms for node, window in windows.items() if (rtt_ms := rtt(window)) is not None} if fresh else {}
    _note(causes, ((node, cause(reference, windows[node], facts)) for node in windows.keys() - known.keys()))
    return known


def _backward(reference: str, statistic: Statistic, causes: dict[str, Cause], facts: Facts) -> dict[str, float]:
    """By each of the others. Notes why windows with the reference do not count."""
    column, snapshot = facts.memo.column, facts.snapshot
    measured = column("rtt_ms", (reference, statistic), partial(_rtt_ms, reference, ms(statistic)), snapshot)
    without = column("no rtt_ms", (reference, statistic), partial(_without, reference, ms(statistic)), snapshot)
    old = [node for node in old_nodes(facts) if node in measured or node in without]
    _note(causes, ((node, cause(node, window, facts)) for node, window in without.items()))
    _note(causes, ((node, _old(node, facts)) for node in old))
    return fresh_part(measured, facts)


def _note(causes: dict[str, Cause], found: Iterator[tuple[str, Cause]]) -> None:
    for node, why in found:
        causes[node] = max(causes.get(node, Cause.UNMEASURED), why)


def window(reference: str, state: NodeState) -> PeerLatency | None:
    return None if state.latency is None else state.latency.peers.get(reference)


def _rtt_ms(reference: str, of: Callable[[PeerLatency], float | None], state: NodeState) -> float | None:
    found = window(reference, state)
    return None if found is None else of(found)


def _without(reference: str, of: Callable[[PeerLatency], float | None], state: NodeState) -> PeerLatency | None:
    found = window(reference, state)
    return None if found is None or of(found) is not None else found


def ms(statistic: Statistic) -> Callable[[PeerLatency], float | None]:
    return attrgetter(f"{statistic}_ms")


def cause(reporter: str, window: PeerLatency, facts: Facts) -> Cause:
    """Why this window of the reporter does not count."""
    if facts.snapshot.nodes[reporter].freshness(facts.now) is not Freshness.FRESH:
        return _old(reporter, facts)
    return Cause.UNMEASURED if window.received else Cause.NO_REPLY


def _old(reporter: str, facts: Facts) -> Cause:
    provisional = facts.snapshot.nodes[reporter].freshness(facts.now) is Freshness.PROVISIONAL
    return Cause.PROVISIONAL if provisional else Cause.STALE
