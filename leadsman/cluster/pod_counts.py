"""Counts of pods by node: made once for the pods that clusters share, and corrected where a cluster differs."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping

from msgspec import Struct

from leadsman.cluster.constraints import PodAffinityTerm
from leadsman.cluster.model import UNBOUND, Cluster
from leadsman.cluster.pod import ClusterPod


class _Alike(Struct, frozen=True):
    """Pods that share namespace, labels, constraints and whether they are being deleted. pod: any of them."""

    pod: ClusterPod
    by_node: Counter[str]


def pods_by_node(cluster: Cluster, key: Hashable, counts: Callable[[ClusterPod], bool]) -> Mapping[str, int]:
    """Node → number of bound pods that count; `key` names what counts.

    counts: looks at namespace, labels, constraints and `terminating` only, because one pod is asked about for all that
    have these in common.
    """
    of_base = cluster.pods.of_base(("counts", key), lambda pods: _count(_alike(cluster), counts))
    if not cluster.pods.changes:
        return of_base
    by_node = Counter(of_base)
    for uid, now in cluster.pods.changes.items():
        before = cluster.pods.base.get(uid)
        if before is not None and before.node != UNBOUND and counts(before):
            by_node[before.node] -= 1
        if now is not None and now.node != UNBOUND and counts(now):
            by_node[now.node] += 1
    return +by_node


def anti_affinity_terms(cluster: Cluster) -> set[PodAffinityTerm]:
    """Every required anti-affinity term that a bound pod has, or had in a cluster of the same base."""
    terms = cluster.pods.of_base(
        "anti-affinity terms",
        lambda _: {term for each in _alike(cluster) for term in each.pod.constraints.anti_affinity},
    )
    changed = filter(None, cluster.pods.changes.values())
    return terms.union(*(pod.constraints.anti_affinity for pod in changed))


def _alike(cluster: Cluster) -> list[_Alike]:
    return cluster.pods.of_base("alike", _grouped)


def _grouped(pods: Mapping[str, ClusterPod]) -> list[_Alike]:
    """By identity: pods of one template share their labels and constraints; any others are groups of one."""
    groups: dict[Hashable, _Alike] = {}
    for pod in pods.values():
        if pod.node == UNBOUND:
            continue
        key = (pod.namespace, id(pod.labels), id(pod.constraints), pod.terminating)
        if key not in groups:
            groups[key] = _Alike(pod, Counter())
        groups[key].by_node[pod.node] += 1
    return list(groups.values())


def _count(groups: list[_Alike], counts: Callable[[ClusterPod], bool]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in groups:
        if counts(each.pod):
            total.update(each.by_node)
    return total
