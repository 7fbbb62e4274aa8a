"""Why a pod is never moved, and why the API server would refuse its move now. Each "no" is a sentence for an Event."""

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.quotas import counting_quotas, quota_refusals
from leadsman.kube.names import (
    HELD_FOR_LABEL,
    PLACEHOLDER_LABEL,
    PLACEHOLDER_NAMESPACE,
    PLACEHOLDER_PRIORITY_CLASS,
)

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"

MADE_AGAIN = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Owners that make a new pod for one that was evicted, and lose nothing by it."""

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000


def why_never_moved(pod: ClusterPod) -> str:
    """Why the pod is never moved; "": it may be."""
    if pod.mirror:
        return "it is a static pod, which only its own kubelet runs"
    if not pod.owner_uid:
        return "it has no controller that would make it again"
    if pod.owner_kind not in MADE_AGAIN:
        return f"its owner is a {pod.owner_kind}, whose pods are not moved"
    if pod.owner_kind == "StatefulSet" and pod.local_volumes:
        return "it is a StatefulSet's pod and keeps data on its node"
    if pod.annotations.get(SAFE_TO_EVICT) == "false":
        return f'annotation {SAFE_TO_EVICT} is "false"'
    if pod.priority >= SYSTEM_CRITICAL_PRIORITY:
        return "it is critical to the system"
    return ""


def why_not_evictable(pod: ClusterPod, cluster: Cluster) -> str:
    """Why the Eviction API would refuse the pod now; "": it would evict it.

    pkg/registry/core/pod/storage/eviction.go: a pod that is not running and ready may be evicted in any case where its
    budget says so, or has as many healthy pods as it wants.
    """
    budgets = cluster.budgets_of(pod)
    if len(budgets) > 1:
        names = ", ".join(sorted(budget.name for budget in budgets))
        return f"several PodDisruptionBudgets cover it ({names}), and the Eviction API refuses that"
    for budget in budgets:
        enough = 0 < budget.desired_healthy <= budget.current_healthy
        if not pod.ready and (budget.unhealthy_always or (budget.observed and enough)):
            continue
        if not budget.observed or budget.disruptions_allowed < 1:
            return f"PodDisruptionBudget {budget.name} allows no eviction"
    return ""


def why_quota_refuses(pod: ClusterPod, cluster: Cluster) -> str:
    """Which ResourceQuota would refuse the pod that holds its room, or the one that takes its place; "": none would.

    The new pod is made while the old one ends, and both count until that is gone; of a StatefulSet it comes after it.
    """
    holding = ClusterPod(
        "",
        PLACEHOLDER_NAMESPACE,
        "",
        requests=pod.requests,
        priority_class=PLACEHOLDER_PRIORITY_CLASS,
        has_deadline=True,
    )
    if reasons := quota_refusals(cluster, holding):
        return f"in namespace {PLACEHOLDER_NAMESPACE}, where its room is held, {reasons[0]}"
    beside = pod.owner_kind != "StatefulSet"
    for quota, usage in counting_quotas(cluster, pod):
        for resource, asked in usage.items():
            left = quota.hard[resource] - quota.used.get(resource, 0)
            if left < (asked if beside else 0):
                while_it_ends = " while it ends" if beside else ""
                return f"quota {quota.name} leaves {left} of {resource}{while_it_ends}, and its new pod needs {asked}"
    return ""


def is_bystander(pod: ClusterPod) -> bool:
    """Whether the pod only holds room, or ends anyway."""
    return pod.terminating or not pod.labels.keys().isdisjoint((PLACEHOLDER_LABEL, HELD_FOR_LABEL))
