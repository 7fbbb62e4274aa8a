"""Says why nothing can be done for a pod: which bound, which delay, the nearest candidate, and what would fix it."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import amount_text
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.delay.bounds import NoTarget, valid_bounds
from leadsman.decision.delay.evaluation import evaluate_bounds
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.planning.replacement.model import NoFix
from leadsman.planning.situation import Situation


class _Nearest(NamedTuple):
    node: str
    misses_by: str
    remedy: str


_NONE = _Nearest("", "", "let agents measure the delays to more nodes, or loosen the bound")


class _Excess(NamedTuple):
    """By how much a node misses a bound. rtt_ms: measured or estimated."""

    to: str
    bound_ms: float
    rtt_ms: float

    @property
    def over_ms(self) -> float:
        return self.rtt_ms - self.bound_ms


def no_fix(
    pod: ClusterPod, situation: Situation, why: str, violation: DelayEvidence | None = None, remedy: str = ""
) -> NoFix:
    """The report.

    violation: the bound that a running pod has left.
    remedy: of a cause that no other node would mend.
    """
    nearest = _nearest(pod, situation)
    evidence = violation
    if evidence is None and nearest.node:
        distances = delay_evidence(PodInfo.of(pod), (nearest.node,), situation.inputs).distances
        evidence = max(distances.get(nearest.node, ()), key=_over_ms, default=None)
    bound = f"{evidence.to} within {evidence.bound_ms:g} ms" if evidence else _bounds_text(pod)
    return NoFix(
        pod_uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        bound=bound,
        delay_ms=evidence.rtt_ms if evidence else None,
        source=evidence.source if evidence else "",
        age_seconds=evidence.age_seconds if evidence else None,
        why=why,
        nearest=nearest.node,
        misses_by=nearest.misses_by,
        remedy=remedy or nearest.remedy,
    )


def _nearest(pod: ClusterPod, situation: Situation) -> _Nearest:
    refused = situation.bound_refusals(pod)
    keepers = [node for node in situation.cluster.nodes if node not in refused and node != pod.node]
    if keepers:
        return _lacking_least(pod, situation, keepers)
    return _least_excess(pod, situation, (node for node in refused if node != pod.node))


def _lacking_least(pod: ClusterPod, situation: Situation, keepers: list[str]) -> _Nearest:
    """Of the nodes that keep the bounds, the one that is refused for least."""
    cluster, verdict = situation.cluster, situation.verdict(pod)

    def lacks(node: str) -> tuple[int, float, str]:
        shortfall = pod.requests.shortfall(cluster.free(node))
        shares = sum(each.missing / pod.requests.amount(each.resource) for each in shortfall)
        return len(verdict.reasons(node)), shares, node

    node = min(keepers, key=lacks)
    shortfall = pod.requests.shortfall(cluster.free(node))
    if shortfall:
        missing = " and ".join(amount_text(each.resource, each.missing) for each in shortfall)
        return _Nearest(node, f"it keeps the bound and lacks {missing}", f"free {missing} on node {node}")
    reasons = verdict.reasons(node)
    if reasons:
        text = "; ".join(reasons)
        return _Nearest(node, f"it keeps the bound, but {text}", f"change what keeps the pod off node {node}: {text}")
    lost = situation.lost_bound({pod.uid: node})
    if lost:
        return _Nearest(node, f"it keeps the bound, but {lost}", f"move or loosen what is bound to it: {lost}")
    return _Nearest(
        node, "nothing, it could take the pod", f"delete the pod, so that its owner's new one goes to {node}"
    )


def _least_excess(pod: ClusterPod, situation: Situation, nodes: Iterable[str]) -> _Nearest:
    """Of the nodes whose delay is known, the one that is over its bound by least; one that has room comes first."""
    has_room = set(Feasibility(situation.cluster, pod).nodes)
    excesses = {node: excess for node in nodes if (excess := _excess(pod, node, situation))}
    if not excesses:
        return _NONE
    node = min(excesses, key=lambda each: (each not in has_room, excesses[each].over_ms, each))
    excess = excesses[node]
    over = f"its delay to {excess.to} is {excess.rtt_ms:.3g} ms, {excess.over_ms:.3g} ms over the bound"
    remedy = f"bring a node within {excess.bound_ms:g} ms of {excess.to}, or raise the bound to {excess.rtt_ms:.3g} ms"
    return _Nearest(node, over, remedy)


def _excess(pod: ClusterPod, node: str, situation: Situation) -> _Excess | None:
    """The bound that the node misses by most; None where one is unknown there, or none is missed."""
    info = PodInfo.of(pod)
    missed = list[_Excess]()
    for each in evaluate_bounds(valid_bounds(info), info, situation.candidates, situation.inputs):
        if isinstance(each, NoTarget):
            return None
        rtt_ms = float(each.evaluation.rtt_ms[each.evaluation.index.position(node)])
        if math.isnan(rtt_ms):
            return None
        if rtt_ms > each.bound.ms:
            missed.append(_Excess(each.target.name, each.bound.ms, rtt_ms))
    return max(missed, key=lambda one: one.over_ms, default=None)


def _over_ms(evidence: DelayEvidence) -> float:
    return (evidence.rtt_ms or 0.0) - evidence.bound_ms


def _bounds_text(pod: ClusterPod) -> str:
    bounds = valid_bounds(PodInfo.of(pod))
    return ", ".join(f"{bound.reference} within {bound.ms:g} ms" for bound in bounds) or "unreadable"
