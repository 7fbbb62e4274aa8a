"""The delay bounds of a pod as a filter: a node passes only when every bound is known to hold there."""

from collections.abc import Mapping, Sequence, Set
from itertools import filterfalse

from msgspec import Struct

from decision import bounds, told, verdicts
from decision.bounds import BadBound, Bound
from decision.freshness import kept_while_fresh
from decision.model import Candidates, Evidence, Facts, Pod, Refusal
from decision.pairs import Cause
from decision.policy import Estimate
from decision.references import Missing, Referent, resolve
from decision.told import REASONS

NAME = "delay"


class DelayFilter:
    """A hard bound is never dropped: what is not known refuses, unless the policy or the pod accepts it."""

    name = NAME

    def refusals(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Mapping[str, Refusal]:
        try:
            wanted = bounds.of(pod)
        except BadBound as error:
            return dict.fromkeys(nodes, Refusal(NAME, str(error)))
        left, refused = Candidates.of(nodes), dict[str, Refusal]()
        for bound in wanted:
            refused |= _refusals(bound, resolve(bound, pod, nodes, facts), left, facts)
            left = Candidates(filterfalse(refused.__contains__, left)) if refused else left
        return refused

    def evidence(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Evidence:
        return told.evidence(pod, nodes, facts)


def _refusals(bound: Bound, referent: Referent | Missing, nodes: Candidates, facts: Facts) -> Mapping[str, Refusal]:
    if isinstance(referent, Missing):
        return dict.fromkeys(nodes, Refusal(NAME, referent.reason))
    if not referent.nodes:
        return {}
    key = (bound, referent.name, referent.nodes, facts.policy.delay)
    found = kept_while_fresh(key, lambda: _reasoned(bound, referent, facts), facts)
    # Pods of one workload come one after another, with the same bound and the same nodes.
    return kept_while_fresh((key, nodes), lambda: _among(nodes, found, bound, referent, facts), facts)


def _among(
    nodes: Sequence[str], found: "_Reasoned", bound: Bound, referent: Referent, facts: Facts
) -> Mapping[str, Refusal]:
    refused, passing = found.refused, found.passing
    if verdicts.mode(bound, facts) is Estimate.ACCEPT:
        return {node: refused[node] for node in filter(refused.__contains__, nodes)}
    unmeasured = _refusal(Cause.UNMEASURED, bound, referent)
    return {node: refused.get(node, unmeasured) for node in filterfalse(passing.__contains__, nodes)}


class _Reasoned(Struct, frozen=True):
    """Verdicts with the reasons made."""

    passing: Set[str]
    refused: Mapping[str, Refusal]


def _reasoned(bound: Bound, referent: Referent, facts: Facts) -> _Reasoned:
    found, by_cause = verdicts.verdicts(bound, referent, facts), [_refusal(cause, bound, referent) for cause in Cause]
    reasons = map(by_cause.__getitem__, found.refused.values())
    return _Reasoned(found.passing, dict(zip(found.refused, reasons, strict=True)))


def _refusal(cause: Cause, bound: Bound, referent: Referent) -> Refusal:
    return Refusal(NAME, REASONS[cause].format(referent.name, bound.ms))
