"""Tells whether the API server would admit one more pod under the ResourceQuotas of its namespace."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from leadsman.cluster.model import Cluster, ClusterPod, Quota, QuotaScope

_MUST_BE_STATED = ("cpu", "memory")
"""A quota on these refuses a pod that does not request them, or has no limit of them."""


def quota_refusals(cluster: Cluster, pod: ClusterPod) -> tuple[str, ...]:
    """Says why creating this pod would be refused; () if nothing does. pkg/quota/v1/evaluator/core/pods.go.

    Limits of containers are left out: the model keeps none, as the API server counts those of a pod that is there.
    """
    reasons, usage = list[str](), _usage(pod)
    for quota in _counting(cluster, pod):
        for resource, hard in quota.hard.items():
            kind, _, name = resource.partition(".")
            used, asked = quota.used.get(resource, 0), usage.get(resource, 0)
            if not asked and name in _MUST_BE_STATED:
                reasons.append(f"quota {quota.name} limits {resource}, of which the pod states none in its {kind}")
            elif asked and used + asked > hard:
                reasons.append(
                    f"quota {quota.name} limits {resource} to {hard}: {used} is used and the pod adds {asked}"
                )
    return tuple(reasons)


def counting_quotas(cluster: Cluster, pod: ClusterPod) -> Iterator[tuple[Quota, Mapping[str, int]]]:
    """Yields the quotas that count the pod, each with what it limits → how much of it the pod uses."""
    usage = _usage(pod)
    for quota in _counting(cluster, pod):
        yield quota, {resource: usage[resource] for resource in quota.hard if usage.get(resource)}


def replacement_refusals(cluster: Cluster, pods: Iterable[ClusterPod]) -> tuple[str, ...]:
    """Says why pods like these, of one namespace, could not be created beside them; () if all could.

    A pod that is being deleted on a dead node goes on to count (pkg/quota/v1/evaluator/core/pods.go: until its grace
    period is over, and then until usage is computed again).
    """
    added: dict[str, Counter[str]] = {}
    quotas = dict[str, Quota]()
    for pod in pods:
        for quota, usage in counting_quotas(cluster, pod):
            quotas[quota.name] = quota
            added.setdefault(quota.name, Counter()).update(usage)
    return tuple(
        f"quota {name} leaves {left} of {resource}, and {asked} would be asked for"
        for name, usage in added.items()
        for resource, asked in usage.items()
        if asked > (left := quotas[name].hard[resource] - quotas[name].used.get(resource, 0))
    )


def _counting(cluster: Cluster, pod: ClusterPod) -> Iterator[Quota]:
    for quota in cluster.quotas.values():
        if quota.namespace == pod.namespace and all(_matches(scope, pod) for scope in quota.scopes):
            yield quota


def _usage(pod: ClusterPod) -> dict[str, int]:
    return {"pods": 1, "count/pods": 1} | {f"requests.{name}": n for name, n in pod.requests.items() if name != "pods"}


def _matches(scope: QuotaScope, pod: ClusterPod) -> bool:
    best_effort, of_class = not pod.requests.cpu_millis and not pod.requests.memory_bytes, pod.priority_class
    by_operator = {"In": of_class in scope.values, "NotIn": of_class not in scope.values, "Exists": bool(of_class)}
    terms = (*pod.constraints.affinity, *pod.constraints.anti_affinity)
    return {
        "Terminating": pod.has_deadline,
        "NotTerminating": not pod.has_deadline,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "PriorityClass": by_operator.get(scope.operator, not of_class),
        "CrossNamespacePodAffinity": any(
            term.namespaces != (pod.namespace,) or term.namespace_selector is not None for term in terms
        ),
    }.get(scope.name, False)
