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
from decision.sources import EstimatedRow


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
    guessed = _guessed(reference, ms, use, facts)
    silent = {node: cause for node, cause in found.causes.items() if _counts(cause, use, node in guessed.passing)}
    refused = {**guessed.refused, **silent, **over}
    for node in passing & refused.keys():
        del refused[node]
    return Verdicts(passing | (guessed.passing - refused.keys()), refused)


def _counts(cause: Cause, use: Estimate, guessed: bool) -> bool:
    """Whether a pair without a measured delay is refused for this cause, or only for its estimate."""
    waived = guessed or use is Estimate.ACCEPT or cause is Cause.UNMEASURED
    return cause is Cause.NO_REPLY or not waived


def _guessed(reference: str, ms: float, use: Estimate, facts: Facts) -> Verdicts:
    """By the estimates alone, whether a node was measured or not."""
    estimates, upper = facts.estimates, use is Estimate.UPPER_BOUND
    if estimates is None or (upper and reference not in pairs.alive(facts)):
        return Verdicts(frozenset(), {})
    key = ("guessed", reference, ms, use)
    found = facts.memo.row(estimates, key, lambda: _by_row(pairs.estimated(reference, facts), ms, upper))
    return Verdicts(found.passing & pairs.alive(facts), found.refused) if upper else found


def _by_row(row: EstimatedRow, ms: float, upper: bool) -> Verdicts:
    decisive = zip(row.nodes, row.high_ms if upper else row.rtt_ms, strict=True)
    within = frozenset(node for node, value in decisive if value <= ms)
    lows = zip(row.nodes, row.low_ms, strict=True)
    return Verdicts(within, {node: Cause.FAR if low > ms else Cause.UNSURE for node, low in lows if node not in within})
