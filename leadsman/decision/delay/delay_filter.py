"""The delay bounds of a pod as a filter: a node passes only when every bound is known to hold there."""

from collections.abc import Mapping, Sequence, Set
from itertools import filterfalse

from msgspec import Struct

from leadsman.decision.delay import bound_check, bounds, explain_delay
from leadsman.decision.delay.bounds import BadBound, DelayBound
from leadsman.decision.delay.explain_delay import REASON_TEMPLATES
from leadsman.decision.delay.rtt_table import DelayCause
from leadsman.decision.delay.targets import NoTarget, Target, resolve_target
from leadsman.decision.freshness import cached_while_fresh
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, Evidence, PodInfo, Refusal
from leadsman.decision.policy import EstimateMode

NAME = "delay"


class DelayFilter:
    """A hard bound is never dropped: what is not known refuses, unless the policy or the pod accepts it."""

    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], facts: DecisionInputs) -> Mapping[str, Refusal]:
        try:
            wanted = bounds.parse_bounds(pod)
        except BadBound as error:
            return dict.fromkeys(nodes, Refusal(NAME, str(error)))
        left, refused = CandidateNodes.of(nodes), dict[str, Refusal]()
        for bound in wanted:
            refused |= _refusals(bound, resolve_target(bound, pod, nodes, facts), left, facts)
            left = CandidateNodes(filterfalse(refused.__contains__, left)) if refused else left
        return refused

    def evidence(self, pod: PodInfo, nodes: Sequence[str], facts: DecisionInputs) -> Evidence:
        return explain_delay.delay_evidence(pod, nodes, facts)


def _refusals(
    bound: DelayBound, referent: Target | NoTarget, nodes: CandidateNodes, facts: DecisionInputs
) -> Mapping[str, Refusal]:
    if isinstance(referent, NoTarget):
        return dict.fromkeys(nodes, Refusal(NAME, referent.reason))
    if not referent.nodes:
        return {}
    key = (bound, referent.name, referent.nodes, facts.policy.delay)
    found = cached_while_fresh(key, lambda: _check_nodes(bound, referent, facts), facts)
    # Pods of one workload come one after another, with the same bound and the same nodes.
    return cached_while_fresh((key, nodes), lambda: _select_refusals(nodes, found, bound, referent, facts), facts)


def _select_refusals(
    nodes: Sequence[str], found: "_CheckedNodes", bound: DelayBound, referent: Target, facts: DecisionInputs
) -> Mapping[str, Refusal]:
    refused, passing = found.refused, found.passing
    if bound_check.estimate_mode(bound, facts) is EstimateMode.ACCEPT:
        return {node: refused[node] for node in filter(refused.__contains__, nodes)}
    unmeasured = _refusal(DelayCause.UNMEASURED, bound, referent)
    return {node: refused.get(node, unmeasured) for node in filterfalse(passing.__contains__, nodes)}


class _CheckedNodes(Struct, frozen=True):
    """Verdicts with the reasons made."""

    passing: Set[str]
    refused: Mapping[str, Refusal]


def _check_nodes(bound: DelayBound, referent: Target, facts: DecisionInputs) -> _CheckedNodes:
    found, by_cause = (
        bound_check.check_bound(bound, referent, facts),
        [_refusal(cause, bound, referent) for cause in DelayCause],
    )
    reasons = map(by_cause.__getitem__, found.refused.values())
    return _CheckedNodes(found.passing, dict(zip(found.refused, reasons, strict=True)))


def _refusal(cause: DelayCause, bound: DelayBound, referent: Target) -> Refusal:
    return Refusal(NAME, REASON_TEMPLATES[cause].format(referent.name, bound.ms))
