"""Which pairs should be measured, because a decision turns on them.

Of the nodes that nothing else rules out, the pairs that nobody measured and whose bound the estimate does not settle
against: measured, the node would pass or fail for sure. A pair that was probed in vain is not asked for again, and of a
node from which nothing fresh comes there is nobody to ask.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from decision import bounds, pairs, verdicts
from decision.bounds import Bound
from decision.model import Facts, Pod
from decision.pairs import Cause
from decision.policy import Direction
from decision.references import Referent, resolve

MOST = 16
"""Pairs that one decision asks for: as many as a node has peers."""

_OPEN = (None, Cause.UNMEASURED, Cause.UNSURE)


class _Pair(NamedTuple):
    """In the order in which measuring pays: the nearest is the likeliest to pass; without an estimate last."""

    rtt_ms: float
    node: str
    reference: str


def wanted(pod: Pod, nodes: Sequence[str], facts: Facts, most: int = MOST) -> tuple[tuple[str, str], ...]:
    """At most `most` pairs, each once, the nearest first by estimate: who should measure, and whom. It is the node, but
    where the policy counts only what the reference measures."""
    found = [(bound, resolve(bound, pod, nodes, facts)) for bound in bounds.readable(pod)]
    to = [(bound, referent) for bound, referent in found if isinstance(referent, Referent) and referent.nodes]
    if len(to) < len(found):
        return ()
    open_nodes = _open(to, nodes, facts)
    each = {pair for bound, referent in to for pair in _unmeasured(bound, referent, open_nodes, facts)}
    forward = facts.policy.delay.direction is Direction.FORWARD
    ways = ((one.reference, one.node) if forward else (one.node, one.reference) for one in sorted(each))
    return tuple(dict.fromkeys(ways))[:most]


def _open(to: Sequence[tuple[Bound, Referent]], nodes: Sequence[str], facts: Facts) -> list[str]:
    """Those that somebody vouches for and no bound rules out."""
    judged = [verdicts.verdicts(bound, referent, facts) for bound, referent in to]
    alive = pairs.alive(facts)
    return [node for node in nodes if node in alive and all(each.cause(node) in _OPEN for each in judged)]


def _unmeasured(bound: Bound, referent: Referent, nodes: Sequence[str], facts: Facts) -> Iterator[_Pair]:
    for reference in referent.nodes:
        if reference not in pairs.alive(facts):
            continue
        found, row = pairs.reports(reference, facts), pairs.estimated(reference, facts)
        guesses = dict(zip(row.nodes, zip(row.rtt_ms, row.low_ms, strict=True), strict=True))
        for node in nodes:
            rtt_ms, low_ms = guesses.get(node, (float("inf"), 0.0))
            missing = node not in found.known and found.causes.get(node, Cause.UNMEASURED) is Cause.UNMEASURED
            if missing and low_ms <= bound.ms:
                yield _Pair(rtt_ms, node, reference)
