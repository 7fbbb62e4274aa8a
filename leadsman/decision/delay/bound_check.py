"""Which nodes keep a bound, and why the others do not: once for all nodes, kept while the facts stand.

Measured delays decide. For a pair that nobody measured an estimate may, as the policy or the pod says, but only between
two nodes that somebody vouches for, and never where a fresh reporter probed in vain: that a node can be reached is
never inferred. To several nodes, a workload's, the bound holds to each or to at least one of them.
"""

from collections.abc import Mapping, Sequence, Set
from functools import reduce

from msgspec import Struct

from leadsman.decision.delay import rtt_table
from leadsman.decision.delay.bounds import DelayBound, ReplicaMode
from leadsman.decision.delay.rtt_table import DelayCause
from leadsman.decision.delay.targets import Target
from leadsman.decision.delay.views import EstimatedRow
from leadsman.decision.freshness import cached_while_fresh
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import EstimateMode


class BoundCheck(Struct, frozen=True):
    """passing and refused are apart. A node in neither is not measured: it passes under `accept` only."""

    passing: Set[str]
    refused: Mapping[str, DelayCause]

    def cause(self, node: str) -> DelayCause | None:
        """None: it passes."""
        return None if node in self.passing else self.refused.get(node, DelayCause.UNMEASURED)


def estimate_mode(bound: DelayBound, facts: DecisionInputs) -> EstimateMode:
    """The bound's own, else the policy's."""
    return bound.estimate or facts.policy.delay.estimate


def check_bound(bound: DelayBound, referent: Target, facts: DecisionInputs) -> BoundCheck:
    """`referent` has at least one node."""
    use, nodes = estimate_mode(bound, facts), referent.nodes
    key = ("verdicts", nodes, referent.replicas, bound.ms, use, facts.policy.delay)
    return cached_while_fresh(key, lambda: _check_nodes(nodes, referent.replicas, bound.ms, use, facts), facts)


def _check_nodes(
    nodes: Sequence[str], replicas: ReplicaMode, ms: float, use: EstimateMode, facts: DecisionInputs
) -> BoundCheck:
    join = _all_of if replicas is ReplicaMode.ALL else _any_of
    return reduce(join, (_check_reference(node, ms, use, facts) for node in nodes))


def _all_of(one: BoundCheck, other: BoundCheck) -> BoundCheck:
    """Both bounds must hold; the cause that says more is told."""
    refused = {**one.refused, **other.refused}
    for node in one.refused.keys() & other.refused.keys():
        refused[node] = max(one.refused[node], other.refused[node])
    return BoundCheck(one.passing & other.passing, refused)


def _any_of(one: BoundCheck, other: BoundCheck) -> BoundCheck:
    """One is enough; the cause that may still turn out well is told."""
    passing = one.passing | other.passing
    both = one.refused.keys() & other.refused.keys()
    return BoundCheck(passing, {node: min(one.refused[node], other.refused[node]) for node in both - passing})


def _check_reference(reference: str, ms: float, use: EstimateMode, facts: DecisionInputs) -> BoundCheck:
    found = rtt_table.measured_row(reference, facts)
    over = dict.fromkeys([node for node, rtt_ms in found.rtt_ms.items() if rtt_ms > ms], DelayCause.MEASURED_OVER)
    passing = found.rtt_ms.keys() - over.keys()
    if use is EstimateMode.REJECT:
        return BoundCheck(passing, {**found.causes, **over})
    guessed = _check_estimates(reference, ms, use, facts)
    silent = {node: cause for node, cause in found.causes.items() if _refuses(cause, use, node in guessed.passing)}
    refused = {**guessed.refused, **silent, **over}
    for node in passing & refused.keys():
        del refused[node]
    return BoundCheck(passing | (guessed.passing - refused.keys()), refused)


def _refuses(cause: DelayCause, use: EstimateMode, guessed: bool) -> bool:
    """Whether a pair without a measured delay is refused for this cause, or only for its estimate."""
    waived = guessed or use is EstimateMode.ACCEPT or cause is DelayCause.UNMEASURED
    return cause is DelayCause.NO_REPLY or not waived


def _check_estimates(reference: str, ms: float, use: EstimateMode, facts: DecisionInputs) -> BoundCheck:
    """By the estimates alone, whether a node was measured or not."""
    estimates, upper = facts.estimates, use is EstimateMode.UPPER_BOUND
    if estimates is None or (upper and reference not in rtt_table.live_nodes(facts)):
        return BoundCheck(frozenset(), {})
    key = ("guessed", reference, ms, use)
    found = facts.cache.per_object(
        estimates, key, lambda: _check_row(rtt_table.estimated_row(reference, facts), ms, upper)
    )
    return BoundCheck(found.passing & rtt_table.live_nodes(facts), found.refused) if upper else found


def _check_row(row: EstimatedRow, ms: float, upper: bool) -> BoundCheck:
    decisive = zip(row.nodes, row.high_ms if upper else row.rtt_ms, strict=True)
    within = frozenset(node for node, value in decisive if value <= ms)
    lows = zip(row.nodes, row.low_ms, strict=True)
    return BoundCheck(
        within,
        {
            node: DelayCause.ESTIMATE_OVER if low > ms else DelayCause.ESTIMATE_UNSURE
            for node, low in lows
            if node not in within
        },
    )
