"""Which pairs should be measured, because a decision turns on them.

Of the nodes that nothing else rules out, the pairs that nobody measured and whose bound the estimate does not settle
against: measured, the node would pass or fail for sure. A pair that was probed in vain is not asked for again, and of a
node from which nothing fresh comes there is nobody to ask.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leadsman.decision.delay import bound_check, bounds, rtt_table
from leadsman.decision.delay.bounds import DelayBound
from leadsman.decision.delay.rtt_table import DelayCause
from leadsman.decision.delay.targets import Target, resolve_target
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Direction

MAX_PROBE_PAIRS = 16
"""Pairs that one decision asks for: as many as a node has peers."""

_UNDECIDED = (None, DelayCause.UNMEASURED, DelayCause.ESTIMATE_UNSURE)


class _Pair(NamedTuple):
    """In the order in which measuring pays: the nearest is the likeliest to pass; without an estimate last."""

    rtt_ms: float
    node: str
    reference: str


def select_probe_pairs(
    pod: PodInfo, nodes: Sequence[str], facts: DecisionInputs, most: int = MAX_PROBE_PAIRS
) -> tuple[tuple[str, str], ...]:
    """At most `most` pairs, each once, the nearest first by estimate: who should measure, and whom. It is the node, but
    where the policy counts only what the reference measures."""
    found = [(bound, resolve_target(bound, pod, nodes, facts)) for bound in bounds.valid_bounds(pod)]
    to = [(bound, referent) for bound, referent in found if isinstance(referent, Target) and referent.nodes]
    if len(to) < len(found):
        return ()
    open_nodes = _undecided_nodes(to, nodes, facts)
    each = {pair for bound, referent in to for pair in _unmeasured(bound, referent, open_nodes, facts)}
    forward = facts.policy.delay.direction is Direction.FORWARD
    ways = ((one.reference, one.node) if forward else (one.node, one.reference) for one in sorted(each))
    return tuple(dict.fromkeys(ways))[:most]


def _undecided_nodes(to: Sequence[tuple[DelayBound, Target]], nodes: Sequence[str], facts: DecisionInputs) -> list[str]:
    """Those that somebody vouches for and no bound rules out."""
    judged = [bound_check.check_bound(bound, referent, facts) for bound, referent in to]
    alive = rtt_table.live_nodes(facts)
    return [node for node in nodes if node in alive and all(each.cause(node) in _UNDECIDED for each in judged)]


def _unmeasured(bound: DelayBound, referent: Target, nodes: Sequence[str], facts: DecisionInputs) -> Iterator[_Pair]:
    for reference in referent.nodes:
        if reference not in rtt_table.live_nodes(facts):
            continue
        found, row = rtt_table.measured_row(reference, facts), rtt_table.estimated_row(reference, facts)
        guesses = dict(zip(row.nodes, zip(row.rtt_ms, row.low_ms, strict=True), strict=True))
        for node in nodes:
            rtt_ms, low_ms = guesses.get(node, (float("inf"), 0.0))
            missing = (
                node not in found.rtt_ms and found.causes.get(node, DelayCause.UNMEASURED) is DelayCause.UNMEASURED
            )
            if missing and low_ms <= bound.ms:
                yield _Pair(rtt_ms, node, reference)
