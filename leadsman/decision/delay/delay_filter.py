"""The delay bounds of a pod as a filter: a node passes only when every bound is known to hold there."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import compress

import numpy as np

from leadsman.decision.delay import explain_delay
from leadsman.decision.delay.bounds import BadBound, parse_bounds
from leadsman.decision.delay.evaluation import ResolvedBound, evaluate, resolve_bounds
from leadsman.decision.delay.outcomes import Outcome, reason
from leadsman.decision.delay.targets import NoTarget
from leadsman.decision.freshness import cached_while_fresh
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, Evidence, PodInfo, Refusal

NAME = "delay"


class DelayFilter:
    """A hard bound is never dropped: what is not known refuses, unless the policy or the pod accepts it."""

    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        try:
            resolved = resolve_bounds(parse_bounds(pod), pod, nodes, inputs)
        except BadBound as error:
            return dict.fromkeys(nodes, Refusal(NAME, str(error)))
        if not resolved:
            return {}
        # Pods of one workload come one after another, with the same bounds and the same nodes.
        asked = CandidateNodes.of(nodes)
        key = (NAME, asked, inputs.policy.delay, *map(_identity, resolved))
        return cached_while_fresh(key, lambda: _refusals(resolved, asked, inputs), inputs)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return explain_delay.delay_evidence(pod, nodes, inputs)


def _identity(each: ResolvedBound | NoTarget) -> Hashable:
    return each if isinstance(each, NoTarget) else (each.bound, each.target.name, each.target.nodes)


def _refusals(
    resolved: Sequence[ResolvedBound | NoTarget], nodes: Sequence[str], inputs: DecisionInputs
) -> Mapping[str, Refusal]:
    """Of several bounds that refuse a node, the first gives the reason, and once every node is refused the others are
    not evaluated."""
    refused, passing = dict[str, Refusal](), np.ones(len(nodes), np.bool_)
    for each in resolved:
        if not passing.any():
            break
        if isinstance(each, NoTarget):
            return refused | dict.fromkeys(compress(nodes, passing.tolist()), Refusal(NAME, each.reason))
        bound, target = each
        evaluation = evaluate(bound, target, inputs)
        outcomes = evaluation.outcome[inputs.cache.positions(nodes, evaluation.index)]
        refuses = passing & (outcomes > Outcome.ACCEPTED_UNKNOWN)
        for code in np.flatnonzero(np.bincount(outcomes[refuses])).tolist():
            refusal = Refusal(NAME, reason(Outcome(code), target.name, bound.ms))
            refused |= dict.fromkeys(compress(nodes, (refuses & (outcomes == code)).tolist()), refusal)
        passing &= ~refuses
    return refused
