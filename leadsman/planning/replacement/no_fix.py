"""Says why nothing can be done for a pod: which bound, which delay, the nearest candidate, and what would fix it."""

from collections.abc import Mapping
from typing import NamedTuple

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import amount_text
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.model import DelayEvidence, PodInfo, Refusal
from leadsman.planning.moves.bounds import SupposedBounds
from leadsman.planning.replacement.model import NoFix


class _Nearest(NamedTuple):
    node: str
    misses_by: str
    remedy: str


_NONE = _Nearest("", "", "let agents measure the delays to more nodes, or loosen the bound")


def no_fix(
    pod: ClusterPod,
    cluster: Cluster,
    bounds: SupposedBounds,
    why: str,
    violation: DelayEvidence | None = None,
    remedy: str = "",
) -> NoFix:
    """The report.

    violation: the bound that a running pod has left.
    remedy: of a cause that no other node would mend.
    """
    nearest = _nearest(pod, cluster, bounds)
    evidence = violation
    if evidence is None and nearest.node:
        evidence = max(bounds.evidence(pod, nearest.node), key=_over_ms, default=None)
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


def _nearest(pod: ClusterPod, cluster: Cluster, bounds: SupposedBounds) -> _Nearest:
    refused = bounds.refusals(pod)
    feasibility = Feasibility(cluster, pod)
    keepers = [node for node in cluster.nodes if node not in refused and node != pod.node]
    if keepers:
        return _lacking_least(pod, cluster, feasibility, bounds, keepers)
    return _least_excess(pod, feasibility, bounds, refused)


def _lacking_least(
    pod: ClusterPod, cluster: Cluster, feasibility: Feasibility, bounds: SupposedBounds, keepers: list[str]
) -> _Nearest:
    """Of the nodes that keep the bounds, the one that is refused for least."""

    def lacks(node: str) -> tuple[int, float, str]:
        shortfall = pod.requests.shortfall(cluster.free(node))
        shares = sum(each.missing / pod.requests.amount(each.resource) for each in shortfall)
        return len(feasibility.refusals(node)), shares, node

    node = min(keepers, key=lacks)
    shortfall = pod.requests.shortfall(cluster.free(node))
    if shortfall:
        missing = " and ".join(amount_text(each.resource, each.missing) for each in shortfall)
        return _Nearest(node, f"it keeps the bound and lacks {missing}", f"free {missing} on node {node}")
    reasons = feasibility.refusals(node)
    if reasons:
        text = "; ".join(reasons)
        return _Nearest(node, f"it keeps the bound, but {text}", f"change what keeps the pod off node {node}: {text}")
    lost = bounds.lost_bound({pod.uid: node})
    if lost:
        return _Nearest(node, f"it keeps the bound, but {lost}", f"move or loosen what is bound to it: {lost}")
    return _Nearest(
        node, "nothing, it could take the pod", f"delete the pod, so that its owner's new one goes to {node}"
    )


def _least_excess(
    pod: ClusterPod, feasibility: Feasibility, bounds: SupposedBounds, refused: Mapping[str, Refusal]
) -> _Nearest:
    """Of the nodes whose delay is known, the one that is over its bound by least; one that has room comes first."""
    has_room = set(feasibility.nodes)
    excesses = {node: excess for node in refused if node != pod.node and (excess := bounds.excess(pod, node))}
    if not excesses:
        return _NONE
    node = min(excesses, key=lambda each: (each not in has_room, excesses[each].over_ms, each))
    excess = excesses[node]
    over = f"its delay to {excess.to} is {excess.rtt_ms:.3g} ms, {excess.over_ms:.3g} ms over the bound"
    remedy = f"bring a node within {excess.bound_ms:g} ms of {excess.to}, or raise the bound to {excess.rtt_ms:.3g} ms"
    return _Nearest(node, over, remedy)


def _over_ms(evidence: DelayEvidence) -> float:
    return (evidence.rtt_ms or 0.0) - evidence.bound_ms


def _bounds_text(pod: ClusterPod) -> str:
    info = PodInfo(pod.namespace, pod.name, pod.uid, pod.labels, pod.annotations, pod.workload)
    return ", ".join(f"{bound.reference} within {bound.ms:g} ms" for bound in valid_bounds(info)) or "unreadable"
