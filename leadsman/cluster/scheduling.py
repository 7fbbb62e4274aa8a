"""Predicts what kube-scheduler's required plugins say of a pod on every node: may it be bound there, and if not, why.

Preferences only rank nodes and are left out. So are CSIStorageCapacity, claims of Dynamic Resource Allocation, pods
that are nominated to a node by a preemption, and the plugin NodeName: a pod that names its node is not scheduled.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from leadsman.cluster import checks
from leadsman.cluster.checks import Candidate, Check, Ints, Mask, everywhere
from leadsman.cluster.constraints import PodAffinityTerm, TopologySpread
from leadsman.cluster.model import UNBOUND, Cluster, ClusterPod

# What a pod requires of the pods around it: affinity, anti-affinity, and spread over domains.
#
# Counts of pods by node: made once for the pods that clusters share, and corrected where a cluster differs.


class _Alike(Struct, frozen=True):
    """Pods that share namespace, labels, constraints and whether they are being deleted. pod: any of them."""

    pod: ClusterPod
    by_node: Counter[str]


def pods_by_node(cluster: Cluster, key: Hashable, counts: Callable[[ClusterPod], bool]) -> Mapping[str, int]:
    """Counts the bound pods for which `counts` is true by node; `key` names what counts.

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
    """Returns every required anti-affinity term that a bound pod has, or had in a cluster of the same base."""
    terms = cluster.pods.of_base(
        "anti-affinity terms",
        lambda _: {term for each in _alike(cluster) for term in each.pod.constraints.anti_affinity},
    )
    changed = filter(None, cluster.pods.changes.values())
    return terms.union(*(pod.constraints.anti_affinity for pod in changed))


def _alike(cluster: Cluster) -> list[_Alike]:
    return cluster.pods.of_base("alike", _grouped)


def _grouped(pods: Mapping[str, ClusterPod]) -> list[_Alike]:
    """Groups pods by identity: those of one template share their labels and constraints; any others are groups of
    one."""
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


def anti_affinity_of_others(candidate: Candidate) -> Iterator[Check]:
    """Refuses nodes that pods already there keep this one away from: satisfyExistingPodsAntiAffinity of
    pkg/scheduler/framework/plugins/interpodaffinity/filtering.go."""
    pod, refused = candidate.pod, dict[str, Mask]()
    labels = candidate.cluster.namespace_labels(pod.namespace)
    for term in anti_affinity_terms(candidate.cluster):
        if term.matches(pod.namespace, pod.labels, labels):
            holders = pods_by_node(candidate.cluster, ("holds", term), _holds(term))
            key = term.topology_key
            held = _populated(candidate, key, candidate.domain_counts(key, holders))
            refused[key] = refused[key] | held if key in refused else held
    for key in sorted(refused):
        yield Check(refused[key], f"a pod in the node's {key} has a required anti-affinity against this pod")


def _holds(term: PodAffinityTerm) -> Callable[[ClusterPod], bool]:
    return lambda pod: term in pod.constraints.anti_affinity


def anti_affinity(candidate: Candidate) -> Iterator[Check]:
    """Refuses by the pod's own terms: satisfyPodAntiAffinity, same file. A node without the label is in no domain."""
    for term in candidate.pod.constraints.anti_affinity:
        counts = candidate.domain_counts(term.topology_key, _matching(candidate, (term,)))
        reason = f"the node's {term.topology_key} has a pod that this pod's required anti-affinity keeps away from"
        yield Check(_populated(candidate, term.topology_key, counts), reason)


def affinity(candidate: Candidate) -> Iterator[Check]:
    """Refuses as satisfyPodAffinity in the same file: pods count that match every term; the first pod of a group that
    matches its own terms goes anywhere where the labels are."""
    terms = candidate.pod.constraints.affinity
    if not terms:
        return
    matching = _matching(candidate, terms)
    populated = [
        _populated(candidate, term.topology_key, candidate.domain_counts(term.topology_key, matching)) for term in terms
    ]
    alone = not any(mask.any() for mask in populated)
    own_labels = candidate.cluster.namespace_labels(candidate.pod.namespace)
    matches_itself = all(term.matches(candidate.pod.namespace, candidate.pod.labels, own_labels) for term in terms)
    for term, mask in zip(terms, populated, strict=True):
        satisfied = candidate.columns.domains(term.topology_key)[0] >= 0 if alone and matches_itself else mask
        reason = f"the node's {term.topology_key} has no pod that this pod's required affinity asks for"
        yield Check(~satisfied, reason)


def _matching(candidate: Candidate, terms: tuple[PodAffinityTerm, ...]) -> dict[str, int]:
    """Maps each node to the number of its pods that match all the terms."""

    def counts(other: ClusterPod) -> bool:
        labels = candidate.cluster.namespace_labels(other.namespace)
        return all(term.matches(other.namespace, other.labels, labels) for term in terms)

    return dict(pods_by_node(candidate.cluster, ("matches", terms, candidate.namespaces_key(terms)), counts))


def _populated(candidate: Candidate, label: str, counts: Ints) -> Mask:
    """Returns the nodes whose domain counts a pod."""
    domain_of_node, _ = candidate.columns.domains(label)
    return _by_domain(domain_of_node, counts) > 0


def _by_domain(domain_of_node: Ints, counts: Ints) -> Ints:
    """Returns the count of each node's domain; 0 for a node that is in none."""
    return np.append(counts, 0)[domain_of_node]


def spread(candidate: Candidate) -> Iterator[Check]:
    """Refuses as pkg/scheduler/framework/plugins/podtopologyspread/filtering.go: no domain may have more than max_skew
    pods more than the least populated one. Pods that are being deleted do not count."""
    for constraint in candidate.pod.constraints.spread:
        counted = spread_counts(candidate, constraint)
        if not len(counted.domains):
            yield _without_label(candidate, constraint)
            continue
        enough = len(counted.domains) >= constraint.min_domains
        least = counted.pods[counted.domains].min() if enough else 0
        after = _by_domain(counted.domain_of_node, counted.pods) + counts_itself(candidate.pod, constraint)
        reason = (
            f"the pod would make the node's {constraint.topology_key} exceed a topology spread of {constraint.max_skew}"
        )
        yield Check(after - least > constraint.max_skew, reason)
        yield _without_label(candidate, constraint)


class SpreadCounts(NamedTuple):
    """Says what one spread constraint counts, by domain.

    domain_of_node: node → domain number; -1: the node has no label.
    pods: domain → pods that count.
    domains: those that are compared with each other.
    """

    domain_of_node: Ints
    pods: Ints
    domains: Ints


def spread_counts(candidate: Candidate, constraint: TopologySpread) -> SpreadCounts:
    """Counts pods on nodes that have the labels of all the pod's constraints and suit the constraint's own policies."""
    columns = candidate.columns
    counting = columns.present & _included(candidate, constraint)
    for each in candidate.pod.constraints.spread:
        counting &= columns.domains(each.topology_key)[0] >= 0
    domain_of_node, _ = columns.domains(constraint.topology_key)
    pods = _spread_counts(candidate, constraint, counting)
    return SpreadCounts(domain_of_node, pods, np.unique(domain_of_node[counting]))


def counts_itself(pod: ClusterPod, constraint: TopologySpread) -> bool:
    """Tells whether the pod is one of those that the constraint spreads: with an empty selector no pod is."""
    selector = constraint.selector
    return selector is not None and bool(selector.requirements) and selector.matches(pod.labels)


def looks_at(pod: ClusterPod, other: ClusterPod, cluster: Cluster) -> bool:
    """Tells whether a requirement of `pod` counts pods like `other`."""
    labels = cluster.namespace_labels(other.namespace)
    terms = (*pod.constraints.affinity, *pod.constraints.anti_affinity)
    if any(term.matches(other.namespace, other.labels, labels) for term in terms):
        return True
    return pod.namespace == other.namespace and any(counts_itself(other, each) for each in pod.constraints.spread)


def _without_label(candidate: Candidate, constraint: TopologySpread) -> Check:
    domain_of_node, _ = candidate.columns.domains(constraint.topology_key)
    reason = f"the node has no label {constraint.topology_key}, over which the pod is spread"
    return Check(domain_of_node < 0, reason)


def _included(candidate: Candidate, constraint: TopologySpread) -> Mask:
    """Returns the nodes that count, by nodeAffinityPolicy and nodeTaintsPolicy."""
    included = candidate.columns.present
    if constraint.honor_affinity:
        included = included & checks.selected(candidate)
    if constraint.honor_taints:
        included = included & ~checks.repelled(candidate)
    return included


def _spread_counts(candidate: Candidate, constraint: TopologySpread, counting: Mask) -> Ints:
    """Maps each domain number to the pods of the selector on nodes that count. countPodsMatchSelector: an empty
    selector counts none."""
    selector, namespace = constraint.selector, candidate.pod.namespace
    if selector is None or not selector.requirements:
        return candidate.domain_counts(constraint.topology_key, {})
    by_node = pods_by_node(
        candidate.cluster,
        ("spread", namespace, selector),
        lambda other: other.namespace == namespace and not other.terminating and selector.matches(other.labels),
    )
    position = candidate.columns.position
    on_counting = {node: count for node, count in by_node.items() if node in position and counting[position[node]]}
    return candidate.domain_counts(constraint.topology_key, on_counting)


def _gates(candidate: Candidate) -> Iterator[Check]:
    """Refuses a pod that has gates. Source: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go."""
    if candidate.pod.gated:
        yield everywhere(candidate, "the pod has scheduling gates, so kube-scheduler does not look at it")


def _known_labels(candidate: Candidate) -> Iterator[Check]:
    """Refuses where labels were cut, which a selector could ask for; kube-scheduler has no such plugin."""
    if candidate.pod.labels_cut:
        yield everywhere(candidate, "the pod has too many labels to read all of them; remove some")
    cut = candidate.columns.of_nodes("labels cut", lambda node: node.labels_cut > 0, absent=False)
    yield Check(cut, "the node has too many labels to read all of them; remove some")


PLUGINS: Sequence[Callable[[Candidate], Iterator[Check]]] = (
    _gates,
    _known_labels,
    checks.unschedulable,
    checks.taints,
    checks.node_affinity,
    checks.host_ports,
    checks.room,
    checks.claims,
    checks.attach_limits,
    spread,
    anti_affinity_of_others,
    anti_affinity,
    affinity,
)
"""Checks that are asked, in the order in which reasons are given."""


class Feasibility:
    """Tells which nodes may have the pod. A pod that is bound is judged as if it were taken off its node first.

    allowed: True where nothing refuses the pod; in the order of `names`.
    """

    def __init__(self, cluster: Cluster, pod: ClusterPod):
        candidate = Candidate(cluster, pod)
        self._checks = [check for plugin in PLUGINS for check in plugin(candidate)]
        self._columns = candidate.columns
        self.names = candidate.columns.names
        self.allowed: Mask = candidate.columns.present.copy()
        for check in self._checks:
            self.allowed &= ~check.refused

    @property
    def nodes(self) -> tuple[str, ...]:
        """Returns the nodes that may have the pod."""
        return tuple([self.names[at] for at in self.positions().tolist()])

    def positions(self, nodes: Sequence[str] | None = None) -> Ints:
        """Returns where in `names` those of the nodes are that may have the pod; None: of all. Those that are named are
        looked up one by one: most pods with a bound have a handful."""
        if nodes is None:
            return np.flatnonzero(self.allowed)
        position, allowed = self._columns.position, self.allowed
        found = sorted(at for node in nodes if (at := position.get(node)) is not None and allowed[at])
        return np.array(found, np.int64)

    def kinds(self) -> dict[str, str]:
        """Maps each node that may not have the pod to the kind of its first reason."""
        found: dict[str, str] = {}
        left = self._columns.present.copy()
        for check in self._checks:
            found |= dict.fromkeys((self.names[at] for at in np.flatnonzero(left & check.refused)), check.kind)
            left &= ~check.refused
        return found

    def refusals(self, node: str) -> tuple[str, ...]:
        """Returns every reason why this node may not have the pod; () if it may. Raises KeyError for a node that
        is not there."""
        position = self._columns.position[node]
        if not self._columns.present[position]:
            raise KeyError(node)
        return tuple(check.reason(position) for check in self._checks if check.refused[position])
