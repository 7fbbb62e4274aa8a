"""The delay bounds of a pod as a filter: a node passes only when every bound is known to hold there."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from leadsman.decision.delay import explain_delay
from leadsman.decision.delay.bounds import BadBound, NoTarget, parse_bounds
from leadsman.decision.delay.evaluation import ResolvedBound, evaluate, resolve_bounds
from leadsman.decision.delay.rtt_table import Outcome, reason
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PodInfo, Refusal

NAME = "delay"

VerdictArray = NDArray[np.int16]
"""Of each node 0 when it passes, else the number of the bound that refuses it * _CODES + the Outcome."""

_CODES = len(Outcome)


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
        bounds = (NAME, *map(_identity, resolved))
        return inputs.view().once(bounds, lambda: _refusals(resolved, nodes, _verdicts(resolved, nodes, inputs)), nodes)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return explain_delay.delay_evidence(pod, nodes, inputs)


def _identity(each: ResolvedBound | NoTarget) -> Hashable:
    return each if isinstance(each, NoTarget) else (each.bound, each.target.name, each.target.nodes)


def _verdicts(
    resolved: Sequence[ResolvedBound | NoTarget], nodes: Sequence[str], inputs: DecisionInputs
) -> VerdictArray:
    """Of several bounds that refuse a node, the first counts, and once every node is refused the others are not
    evaluated."""
    verdicts = np.zeros(len(nodes), np.int16)
    for number, each in enumerate(resolved):
        passing = verdicts == 0
        if not passing.any():
            break
        if isinstance(each, NoTarget):
            verdicts[passing] = number * _CODES + Outcome.UNMEASURED
            break
        evaluation = evaluate(*each, inputs)
        outcomes = evaluation.outcome[evaluation.index.positions(nodes)]
        refuses = passing & (outcomes > Outcome.ACCEPTED_UNKNOWN)
        verdicts[refuses] = number * _CODES + outcomes[refuses].astype(np.int16)
    return verdicts


def _refusals(
    resolved: Sequence[ResolvedBound | NoTarget], nodes: Sequence[str], verdicts: VerdictArray
) -> Mapping[str, Refusal]:
    refused = dict[str, Refusal]()
    for verdict in np.flatnonzero(np.bincount(verdicts)).tolist():
        if verdict:
            refusal = Refusal(NAME, _reason(resolved[verdict // _CODES], Outcome(verdict % _CODES)))
            refused |= dict.fromkeys(compress(nodes, (verdicts == verdict).tolist()), refusal)
    return refused


def _reason(each: ResolvedBound | NoTarget, outcome: Outcome) -> str:
    return each.reason if isinstance(each, NoTarget) else reason(outcome, each.target.name, each.bound.ms)
