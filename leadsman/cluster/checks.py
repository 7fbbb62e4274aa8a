"""Checks one requirement of a pod against every node at once: here those on the node itself and on its volumes."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leadsman.cluster.constraints import HostPort, PodAffinityTerm, PodConstraints, Taint, Toleration
from leadsman.cluster.model import NO_PODS, Claim, Cluster, ClusterNode, ClusterPod, NodePods, Storage, StorageClass
from leadsman.cluster.resources import amount_text

# Values of all nodes are arrays: made once for the nodes that clusters share, patched where a cluster differs.

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


class NodeColumns:
    """Puts the nodes of a cluster in a fixed order, for columns of one value a node.

    names: of the nodes; those that this cluster lacks and another one of the same base has are among them.
    position: name → place in every column.
    present: whether the node is in this cluster.
    """

    def __init__(self, cluster: Cluster):
        self._nodes, self._pods = cluster.nodes, cluster.pods_by_node
        base = self._nodes.of_base("position", lambda nodes: {name: place for place, name in enumerate(nodes)})
        added = [name for name in self._nodes.changes if name not in base]
        self._base_position = base
        self.position: Mapping[str, int] = base
        if added:
            self.position = {**base, **{name: place for place, name in enumerate(added, len(base))}}
        self.names = self._nodes.of_base("names", tuple) + tuple(added)
        self.present: Mask = self.of_nodes("present", lambda _: True, absent=False)

    def of_nodes(self, key: Hashable, value: Callable[[ClusterNode], Any], absent: Any) -> NDArray[Any]:
        """Returns a column of what `value` makes of each node; `key` names it. Read only."""
        column = self._nodes.of_base(key, lambda nodes: _column(value, nodes.values()))
        if not self._nodes.changes:
            return column
        patched = np.concatenate([column, np.full(len(self.names) - len(column), absent, column.dtype)])
        for name, node in self._nodes.changes.items():
            patched[self.position[name]] = absent if node is None else value(node)
        return patched

    def of_pods(self, key: Hashable, value: Callable[[NodePods], int]) -> Ints:
        """Returns a column of what `value` makes of each node's pods; `key` names it. 0 for a node without any."""
        # The position dict is part of what is kept, so that its id is not given to another one.
        _, column = self._pods.of_base(
            (key, id(self._base_position)),
            lambda pods: (
                self._base_position,
                _column(value, [pods.get(name, NO_PODS) for name in self._base_position]),
            ),
        )
        patched = np.concatenate([column, np.zeros(len(self.names) - len(column), np.int64)])
        for name in (*self.names[len(column) :], *self._pods.changes):
            place = self.position.get(name)
            if place is not None:
                patched[place] = value(self._pods.get(name, NO_PODS))
        return patched

    def domains(self, label: str) -> tuple[Ints, dict[str, int]]:
        """Returns the nodes' domains by a label: a column of numbers, -1 without the label, and value → number."""
        numbers: dict[str, int] = self._nodes.of_base(("numbers", label), lambda _: {})

        def number(node: ClusterNode) -> int:
            value = node.labels.get(label)
            return -1 if value is None else numbers.setdefault(value, len(numbers))

        return self.of_nodes(("domains", label), number, absent=-1), numbers


def _column(value: Callable[[Any], Any], of: Any) -> NDArray[Any]:
    values = [value(one) for one in of]
    column = np.array(values, dtype=bool if values and isinstance(values[0], bool) else np.int64)
    column.flags.writeable = False
    return column


class Candidate:
    """A pod that looks for a node, with the cluster as it is without that pod.

    columns: over the nodes of the cluster.
    """

    def __init__(self, cluster: Cluster, pod: ClusterPod):
        self.pod = pod
        self.cluster = cluster.without_pod(pod.uid) if pod.uid in cluster.pods else cluster
        self.columns = NodeColumns(self.cluster)

    def namespaces_key(self, terms: Iterable[PodAffinityTerm]) -> Hashable:
        """Returns what these terms look at besides pods: the labels of namespaces, or None."""
        if all(term.namespace_selector is None for term in terms):
            return None
        return frozenset((name, *sorted(labels.items())) for name, labels in self.cluster.namespaces.items())

    def domain_counts(self, label: str, by_node: Mapping[str, int]) -> Ints:
        """Sums up the counts of each domain's nodes, by the domain's number; see NodeColumns.domains."""
        domain_of_node, numbers = self.columns.domains(label)
        totals = np.zeros(len(numbers), np.int64)
        for node, count in by_node.items():
            domain = domain_of_node[self.columns.position[node]] if node in self.cluster.nodes else -1
            if domain >= 0:
                totals[domain] += count
        return totals


class Check:
    """Holds one requirement's answer for every node.

    refused: one value a node.
    reason: why, or a function that says why of the node at a position.
    kind: what it is about, in the same words for every node.
    """

    __slots__ = ("_reason", "kind", "refused")

    def __init__(self, refused: Mask, reason: str | Callable[[int], str], kind: str = ""):
        self.refused, self._reason = refused, reason
        self.kind = reason if isinstance(reason, str) else kind

    def reason(self, position: int) -> str:
        """Says why the check refuses the node at this position."""
        return self._reason if isinstance(self._reason, str) else self._reason(position)


def everywhere(candidate: Candidate, reason: str) -> Check:
    """Returns a check that refuses every node."""
    return Check(np.ones(len(candidate.columns.names), np.bool_), reason)


# What a pod requires of the node itself: cordon, taints, labels, host ports, and room.

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""The taint that stands for a cordon: who tolerates this may go to a cordoned node: DaemonSet pods do."""

_REPELLING = ("NoSchedule", "NoExecute")


def unschedulable(candidate: Candidate) -> Iterator[Check]:
    """Refuses cordoned nodes, as pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go does."""
    if not _tolerated(CORDON, candidate.pod.constraints.tolerations):
        refused = candidate.columns.of_nodes("cordoned", lambda node: node.unschedulable, absent=False)
        yield Check(refused, "the node is cordoned")


def taints(candidate: Candidate) -> Iterator[Check]:
    """Refuses nodes by their first taint that repels, as pkg/scheduler/framework/plugins/tainttoleration does."""
    tolerations = candidate.pod.constraints.tolerations

    def reason(position: int) -> str:
        taint = repelling_taint(candidate.cluster.nodes[candidate.columns.names[position]], tolerations)
        return f"the pod does not tolerate the node's taint {taint.key}={taint.value}:{taint.effect}" if taint else ""

    yield Check(repelled(candidate), reason, "the node has a taint that the pod does not tolerate")


def repelled(candidate: Candidate) -> Mask:
    """Returns the nodes with a taint that the pod does not tolerate."""
    tolerations = candidate.pod.constraints.tolerations
    return candidate.columns.of_nodes(
        ("repelled", tolerations), lambda node: repelling_taint(node, tolerations) is not None, absent=False
    )


def repelling_taint(node: ClusterNode, tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Returns the first taint of the node that keeps a pod with these tolerations away."""
    repelling = (taint for taint in node.taints if taint.effect in _REPELLING)
    return next((taint for taint in repelling if not _tolerated(taint, tolerations)), None)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def node_affinity(candidate: Candidate) -> Iterator[Check]:
    """Refuses nodes by nodeSelector and node affinity, as pkg/scheduler/framework/plugins/nodeaffinity does."""
    if candidate.pod.constraints.node_selector or candidate.pod.constraints.node_affinity is not None:
        yield Check(
            ~selected(candidate), "the node does not match the pod's nodeSelector or its required node affinity"
        )


def selected(candidate: Candidate) -> Mask:
    """Returns the nodes that match the pod's nodeSelector and its required node affinity."""
    constraints = candidate.pod.constraints
    key = ("selected", constraints.node_selector, constraints.node_affinity)
    return candidate.columns.of_nodes(key, lambda node: _selects(constraints, node), absent=False)


def _selects(constraints: PodConstraints, node: ClusterNode) -> bool:
    if any(node.labels.get(label) != value for label, value in constraints.node_selector):
        return False
    terms = constraints.node_affinity
    return terms is None or any(term.matches(node.name, node.labels) for term in terms)


def host_ports(candidate: Candidate) -> Iterator[Check]:
    """Refuses nodes whose host ports are taken, as pkg/scheduler/framework/plugins/nodeports does."""
    for port in candidate.pod.constraints.host_ports:
        taken = candidate.columns.of_pods(("host port", port), _takers(port))
        yield Check(taken > 0, f"host port {port.port}/{port.protocol} is taken on the node")


def _takers(port: HostPort) -> Callable[[NodePods], int]:
    def takers(there: NodePods) -> int:
        ports = (taken for pod in there.pods for taken in pod.constraints.host_ports)
        return sum(port.conflicts(taken) for taken in ports)

    return takers


def room(candidate: Candidate) -> Iterator[Check]:
    """Refuses nodes short of pod slots, CPU, memory or an extended resource, as plugins/noderesources/fit.go does."""
    return (_room_of(candidate, resource, amount) for resource, amount in candidate.pod.requests.items())


def _room_of(candidate: Candidate, resource: str, amount: int) -> Check:
    columns = candidate.columns
    allocatable = columns.of_nodes(("allocatable", resource), lambda node: node.allocatable.amount(resource), absent=0)
    free = allocatable - columns.of_pods(("requested", resource), lambda there: there.requested.amount(resource))

    def reason(position: int) -> str:
        asked, left = amount_text(resource, amount), amount_text(resource, int(free[position]))
        return f"the pod requests {asked}, of which the node has {left} free"

    return Check(amount > free, reason, f"too little {resource} is free")


# What a pod's claims require of its node: a volume that reaches it, and a driver that can attach one more.


def claims(candidate: Candidate) -> Iterator[Check]:
    """Checks each claim by itself, as the plugins volumebinding, volumezone and volumerestrictions of
    pkg/scheduler/framework/plugins do. Capacity that a driver publishes (CSIStorageCapacity) is not looked at."""
    for name in candidate.pod.claims:
        claim = candidate.cluster.storage.claims.get((candidate.pod.namespace, name))
        if claim is None:
            yield everywhere(candidate, f"PersistentVolumeClaim {name} does not exist")
        elif claim.terminating:
            yield everywhere(candidate, f"PersistentVolumeClaim {name} is being deleted")
        elif claim.single_pod and _is_used(candidate, name):
            yield everywhere(candidate, f"PersistentVolumeClaim {name} is ReadWriteOncePod and another pod uses it")
        elif claim.volume:
            yield _bound(candidate, claim)
        else:
            yield _unbound(candidate, claim)


def _is_used(candidate: Candidate, claim: str) -> bool:
    namespace = candidate.pod.namespace
    users = (pod for pod in candidate.cluster.pods.values() if claim in pod.claims and pod.namespace == namespace)
    return any(pod.node for pod in users)


def _bound(candidate: Candidate, claim: Claim) -> Check:
    volume = candidate.cluster.storage.volumes.get(claim.volume)
    if volume is None:
        return everywhere(candidate, f"volume {claim.volume} of PersistentVolumeClaim {claim.name} does not exist")
    reached = _nodes(candidate, ("reach", volume.node_affinity, volume.zones), volume.reaches)
    return Check(~reached, f"volume {claim.volume} of PersistentVolumeClaim {claim.name} does not reach the node")


def _unbound(candidate: Candidate, claim: Claim) -> Check:
    storage_class = candidate.cluster.storage.classes.get(claim.storage_class, StorageClass(claim.storage_class))
    if not storage_class.waits_for_consumer:
        return everywhere(candidate, f"PersistentVolumeClaim {claim.name} is not bound to a volume")
    served = _nodes(candidate, ("provision", storage_class), storage_class.provisions)
    for volume in candidate.cluster.storage.volumes.values():
        if volume.serves(claim):
            served = served | _nodes(candidate, ("reach", volume.node_affinity, volume.zones), volume.reaches)
    return Check(~served, f"PersistentVolumeClaim {claim.name} can have no volume that reaches the node")


def _nodes(candidate: Candidate, key: Hashable, reaches: Callable[[ClusterNode], bool]) -> Mask:
    return candidate.columns.of_nodes(key, reaches, absent=False)


def attach_limits(candidate: Candidate) -> Iterator[Check]:
    """Refuses nodes that cannot attach more volumes, as nodevolumelimits/csi.go does: one handle counts once."""
    storage, columns = candidate.cluster.storage, candidate.columns
    needed = set(_attachments(candidate.pod, storage))
    for driver in sorted({driver for driver, _ in needed}):
        limits = _limits(candidate, driver)
        refused = np.zeros(len(columns.names), np.bool_)
        for position in np.flatnonzero(limits >= 0):
            there = candidate.cluster.pods_on(columns.names[position])
            attached = {each for pod in there for each in _attachments(pod, storage) if each[0] == driver}
            adding = {each for each in needed if each[0] == driver} - attached
            refused[position] = bool(adding) and len(attached | adding) > limits[position]
        yield Check(refused, f"the node can attach no more volumes of {driver}")


def _limits(candidate: Candidate, driver: str) -> Ints:
    """Says how many volumes of the driver each node can attach; -1: any number."""
    return candidate.columns.of_nodes(("limit", driver), lambda node: node.attach_limits.get(driver, -1), absent=-1)


def _attachments(pod: ClusterPod, storage: Storage) -> Iterator[tuple[str, str]]:
    """Driver and handle of each volume that the pod has or will have attached."""
    for name in pod.claims:
        claim = storage.claims.get((pod.namespace, name))
        if claim is None:
            continue
        volume = storage.volumes.get(claim.volume)
        if volume is not None and volume.driver:
            yield volume.driver, volume.handle
        elif not claim.volume and claim.storage_class in storage.classes:
            yield storage.classes[claim.storage_class].provisioner, f"{pod.namespace}/{name}"
