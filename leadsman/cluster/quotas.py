"""Whether the API server would admit one more pod under the ResourceQuotas of its namespace."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from leadsman.cluster.budgets import Quota, QuotaScope
from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import ZERO, Resources
from leadsman.cluster.storage import NamespacedName

_MUST_BE_STATED = ("cpu", "memory")
"""A quota on these refuses a pod that does not request them, or has no limit of them."""


def quota_refusals(cluster: Cluster, pod: ClusterPod, limits: Resources = ZERO) -> tuple[str, ...]:
    """Says why creating this pod would be refused; () if nothing does. pkg/quota/v1/evaluator/core/pods.go.

    limits: the pod's; a pod of the cluster is counted by the API server, so the model does not keep them.
    """
    usage = _usage(pod, limits)
    quotas = [each for each in cluster.quotas.values() if each.namespace == pod.namespace and _counts(each, pod)]
    return tuple(reason for quota in quotas for reason in _quota_refusals(quota, usage))


def counting_quotas(cluster: Cluster, pod: ClusterPod) -> Iterator[tuple[Quota, Mapping[str, int]]]:
    """The quotas that count the pod, with what they limit → how much of it the pod uses. Limits of containers are left
    out: the model keeps none."""
    usage = _usage(pod, ZERO)
    for quota in cluster.quotas.values():
        if quota.namespace == pod.namespace and _counts(quota, pod):
            yield quota, {resource: usage[resource] for resource in quota.hard if usage.get(resource)}


def replacement_refusals(cluster: Cluster, pods: Iterable[ClusterPod]) -> tuple[str, ...]:
    """Says why pods like these could not be created beside them; () if all could. They are of one namespace.

    A pod that is being deleted on a dead node goes on to count (pkg/quota/v1/evaluator/core/pods.go: until its grace
    period is over, and then until usage is computed again). Quotas on limits are not looked at: the model keeps none.
    """
    reasons: list[str] = []
    added: dict[NamespacedName, Counter[str]] = {}
    for pod in pods:
        for key, quota in cluster.quotas.items():
            if quota.namespace == pod.namespace and _counts(quota, pod):
                added.setdefault(key, Counter()).update(_usage(pod, ZERO))
    for key, usage in added.items():
        quota = cluster.quotas[key]
        for resource, hard in quota.hard.items():
            used, asked = quota.used.get(resource, 0), usage[resource]
            if asked and used + asked > hard:
                reasons.append(f"quota {quota.name} leaves {hard - used} of {resource}, and {asked} would be asked for")
    return tuple(reasons)


def _quota_refusals(quota: Quota, usage: dict[str, int]) -> list[str]:
    reasons = []
    for resource, hard in quota.hard.items():
        kind, _, name = resource.partition(".")
        used, asked = quota.used.get(resource, 0), usage.get(resource, 0)
        if not asked and name in _MUST_BE_STATED:
            reasons.append(f"quota {quota.name} limits {resource}, of which the pod states none in its {kind}")
        elif asked and used + asked > hard:
            reasons.append(f"quota {quota.name} limits {resource} to {hard}: {used} is used and the pod adds {asked}")
    return reasons


def _usage(pod: ClusterPod, limits: Resources) -> dict[str, int]:
    stated = {f"requests.{name}": amount for name, amount in pod.requests.items() if name != "pods"}
    limited = {f"limits.{name}": amount for name, amount in limits.items() if name != "pods"}
    return {"pods": 1, "count/pods": 1, **stated, **limited}


def _counts(quota: Quota, pod: ClusterPod) -> bool:
    return all(_matches(scope, pod) for scope in quota.scopes)


def _matches(scope: QuotaScope, pod: ClusterPod) -> bool:
    best_effort = not pod.requests.cpu_millis and not pod.requests.memory_bytes
    match scope.name:
        case "Terminating":
            return pod.has_deadline
        case "NotTerminating":
            return not pod.has_deadline
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return not best_effort
        case "PriorityClass":
            return _class_matches(scope, pod.priority_class)
        case "CrossNamespacePodAffinity":
            return _has_cross_namespace_affinity(pod)
    return False


def _class_matches(scope: QuotaScope, priority_class: str) -> bool:
    match scope.operator:
        case "In":
            return priority_class in scope.values
        case "NotIn":
            return priority_class not in scope.values
        case "Exists":
            return bool(priority_class)
    return not priority_class


def _has_cross_namespace_affinity(pod: ClusterPod) -> bool:
    terms = (*pod.constraints.affinity, *pod.constraints.anti_affinity)
    return any(term.namespaces != (pod.namespace,) or term.namespace_selector is not None for term in terms)
