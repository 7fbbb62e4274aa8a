"""Which nodes keep a bound, and why the others do not: once for all nodes, kept while the facts stand.

Measured delays decide. For a pair that nobody measured an estimate may, as the policy or the pod says, but only between
two nodes that somebody vouches for, and never where a fresh reporter probed in vain: that a node can be reached is
never inferred. To several nodes, a workload's, the bound holds to each or to at least one of them.
"""

from collections.abc import Mapping, Sequence, Set
from functools import reduce

from msgspec import Struct

from decision import pairs
from decision.bounds import Bound, Replicas
from decision.freshness import kept_while_fresh
from decision.model import Facts
from decision.pairs import Cause
from decision.policy import Estimate
from decision.references import Referent


class Verdicts(Struct, frozen=True):
    """passing and refused are apart. A node in neither is not measured: it passes under `accept` only."""

    passing: Set[str]
    refused: Mapping[str, Cause]

    def cause(self, node: str) -> Cause | None:
        """None: it passes."""
        return None if node in self.passing else self.refused.get(node, Cause.UNMEASURED)


def mode(bound: Bound, facts: Facts) -> Estimate:
    """The bound's own, else the policy's."""
    return bound.estimate or facts.policy.delay.estimate


def verdicts(bound: Bound, referent: Referent, facts: Facts) -> Verdicts:
    """`referent` has at least one node."""
    use, nodes = mode(bound, facts), referent.nodes
    key = ("verdicts", nodes, referent.replicas, bound.ms, use, facts.policy.delay)
    return kept_while_fresh(key, lambda: _to_all(nodes, referent.replicas, bound.ms, use, facts), facts)


def _to_all(nodes: Sequence[str], replicas: Replicas, ms: float, use: Estimate, facts: Facts) -> Verdicts:
    join = _each if replicas is Replicas.ALL else _any
    return reduce(join, (_to(node, ms, use, facts) for node in nodes))


def _each(one: Verdicts, other: Verdicts) -> Verdicts:
    """Both bounds must hold; the cause that says more is told."""
    refused = {**one.refused, **other.refused}
    for node in one.refused.keys() & other.refused.keys():
        refused[node] = max(one.refused[node], other.refused[node])
    return Verdicts(one.passing & other.passing, refused)


def _any(one: Verdicts, other: Verdicts) -> Verdicts:
    """One is enough; the cause that may still turn out well is told."""
    passing = one.passing | other.passing
    both = one.refused.keys() & other.refused.keys()
    return Verdicts(passing, {node: min(one.refused[node], other.refused[node]) for node in both - passing})


def _to(reference: str, ms: float, use: Estimate, facts: Facts) -> Verdicts:
    found = pairs.reports(reference, facts)
    over = dict.fromkeys([node for node, rtt_ms in found.known.items() if rtt_ms > ms], Cause.OVER)
    passing = found.known.keys() - over.keys()
    if use is Estimate.REJECT:
        return Verdicts(passing, {**found.causes, **over})
    guessed = _guessed(reference, ms, use, found.known, facts)
    silent = {node: cause for node, cause in found.causes.items() if _counts(cause, use, node in guessed.passing)}
    refused = {**guessed.refused, **silent, **over}
    return Verdicts(passing | (guessed.passing - refused.keys()), refused)


def _counts(cause: Cause, use: Estimate, guessed: bool) -> bool:
    """Whether a pair without a measured delay is refused for this cause, or only for its estimate."""
    waived = guessed or use is Estimate.ACCEPT or cause is Cause.UNMEASURED
    return cause is Cause.NO_REPLY or not waived


def _guessed(reference: str, ms: float, use: Estimate, known: Mapping[str, float], facts: Facts) -> Verdicts:
    """By the estimates, of nodes that were not measured."""
    row = pairs.estimated(reference, facts)
    if not row.nodes or (use is Estimate.UPPER_BOUND and reference not in pairs.alive(facts)):
        return Verdicts(frozenset(), {})
    decisive = row.high_ms if use is Estimate.UPPER_BOUND else row.rtt_ms
    within = {node for node, value in zip(row.nodes, decisive, strict=True) if value <= ms}
    refused = {
        node: Cause.FAR if low_ms > ms else Cause.UNSURE
        for node, low_ms in zip(row.nodes, row.low_ms, strict=True)
        if node not in within and node not in known
    }
    return Verdicts(within & pairs.alive(facts) if use is Estimate.UPPER_BOUND else within, refused)
