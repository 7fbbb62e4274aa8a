"""The cluster without the names in it."""

import re
from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from leadsman.cluster.budgets import Quota, QuotaScope
from leadsman.cluster.constraints import (
    ANY_ADDRESS,
    PodAffinityTerm,
    PodConstraints,
    Taint,
    Toleration,
    TopologySpread,
)
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.storage import Storage, Volume
from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.sources.cluster_snapshot.anonymous_labels import AnonymousLabels
from leadsman.sources.cluster_snapshot.pseudonyms import Rename

T = TypeVar("T", Taint, Toleration)

_SYSTEM_PRIORITY = "system-"
_CLASS_QUOTA = re.compile(r"(.+)(\.storageclass\.storage\.k8s\.io/.+)")
"""A quota on the volumes of a storage class."""


class AnonymousCluster:
    """Renames what is in a cluster. Names of resources, drivers and kinds stay."""

    def __init__(self, rename: Rename, labels: AnonymousLabels) -> None:
        self._rename, self._labels = rename, labels
        self._constraints_made: dict[int, PodConstraints] = {}

    def cluster(self, cluster: Cluster) -> Cluster:
        """Nodes and pods in the same order."""
        storage = cluster.storage
        return cluster_of(
            map(self._node, cluster.nodes.values()),
            map(self._pod, cluster.pods.values()),
            budgets=[
                replace(
                    each,
                    namespace=self.namespace(each.namespace),
                    name=self._rename(each.name),
                    selector=self._labels.selector(each.selector),
                )
                for each in cluster.budgets.values()
            ],
            quotas=map(self._quota, cluster.quotas.values()),
            storage=Storage(
                {
                    self._key(key): replace(
                        each,
                        namespace=self.namespace(each.namespace),
                        name=self._rename(each.name),
                        volume=self._rename(each.volume),
                        storage_class=self._rename(each.storage_class),
                    )
                    for key, each in storage.claims.items()
                },
                {self._rename(name): self._volume(each) for name, each in storage.volumes.items()},
                {
                    self._rename(name): replace(
                        each, name=self._rename(name), allowed_topologies=self._labels.terms(each.allowed_topologies)
                    )
                    for name, each in storage.classes.items()
                },
            ),
            namespaces={self.namespace(name): self._labels.labels(each) for name, each in cluster.namespaces.items()},
        )

    def namespace(self, name: str) -> str:
        """A namespace. That of the placeholders stays: what is in it means something."""
        return name if name == PLACEHOLDER_NAMESPACE else self._rename(name)

    def workload(self, workload: str) -> str:
        """`kind/name`; the kind stays."""
        kind, slash, name = workload.partition("/")
        return f"{kind}{slash}{self._rename(name)}" if slash else self._rename(workload)

    def _key(self, key: tuple[str, str]) -> tuple[str, str]:
        return self.namespace(key[0]), self._rename(key[1])

    def _node(self, node: ClusterNode) -> ClusterNode:
        return replace(
            node,
            name=self._rename(node.name),
            uid=self._rename(node.uid),
            labels=self._labels.labels(node.labels),
            annotations=self._labels.annotations(node.annotations),
            taints=tuple(map(self._taint, node.taints)),
        )

    def _pod(self, pod: ClusterPod) -> ClusterPod:
        return replace(
            pod,
            uid=self._rename(pod.uid),
            namespace=self.namespace(pod.namespace),
            name=self._rename(pod.name),
            node=self._rename(pod.node),
            workload=self.workload(pod.workload),
            owner_uid=self._rename(pod.owner_uid),
            priority_class=self._priority_class(pod.priority_class),
            labels=self._labels.labels(pod.labels),
            annotations=self._labels.annotations(pod.annotations),
            constraints=self._shared_constraints(pod.constraints),
            claims=tuple(map(self._rename, pod.claims)),
            nominated_node=self._rename(pod.nominated_node),
            devices=pod.devices and self._devices(pod.devices),
        )

    def _devices(self, demand: DeviceDemand) -> DeviceDemand:
        claims, templates = (tuple(map(self._rename, names)) for names in (demand.claims, demand.templates))
        return replace(demand, claims=claims, templates=templates)

    def _shared_constraints(self, constraints: PodConstraints) -> PodConstraints:
        """One object for the pods of one template, as before."""
        if id(constraints) not in self._constraints_made:
            self._constraints_made[id(constraints)] = self._constraints(constraints)
        return self._constraints_made[id(constraints)]

    def _constraints(self, constraints: PodConstraints) -> PodConstraints:
        labels = self._labels
        return PodConstraints(
            node_selector=tuple(
                (labels.key(key), labels.value(key, value)) for key, value in constraints.node_selector
            ),
            node_affinity=labels.terms(constraints.node_affinity),
            tolerations=tuple(map(self._taint, constraints.tolerations)),
            affinity=tuple(map(self._affinity_term, constraints.affinity)),
            anti_affinity=tuple(map(self._affinity_term, constraints.anti_affinity)),
            spread=tuple(map(self._spread, constraints.spread)),
            host_ports=tuple(
                each if each.ip == ANY_ADDRESS else replace(each, ip=self._rename(each.ip))
                for each in constraints.host_ports
            ),
        )

    def _taint(self, taint: T) -> T:
        """A taint, or the toleration of one."""
        return replace(taint, key=self._labels.key(taint.key), value=self._labels.value(taint.key, taint.value))

    def _affinity_term(self, term: PodAffinityTerm) -> PodAffinityTerm:
        return PodAffinityTerm(
            self._labels.key(term.topology_key),
            self._labels.selector(term.selector),
            tuple(map(self.namespace, term.namespaces)),
            self._labels.selector(term.namespace_selector),
        )

    def _spread(self, spread: TopologySpread) -> TopologySpread:
        key = self._labels.key(spread.topology_key)
        return replace(spread, topology_key=key, selector=self._labels.selector(spread.selector))

    def _priority_class(self, name: str) -> str:
        return name if name.startswith(_SYSTEM_PRIORITY) else self._rename(name)

    def _quota(self, quota: Quota) -> Quota:
        return Quota(
            self.namespace(quota.namespace),
            self._rename(quota.name),
            self._amounts(quota.hard),
            self._amounts(quota.used),
            tuple(
                QuotaScope(each.name, each.operator, tuple(map(self._priority_class, each.values)))
                for each in quota.scopes
            ),
        )

    def _amounts(self, amounts: Mapping[str, int]) -> dict[str, int]:
        found = {name: _CLASS_QUOTA.fullmatch(name) for name in amounts}
        return {
            self._rename(match[1]) + match[2] if (match := found[name]) else name: amount
            for name, amount in amounts.items()
        }

    def _volume(self, volume: Volume) -> Volume:
        return replace(
            volume,
            name=self._rename(volume.name),
            storage_class=self._rename(volume.storage_class),
            claim=None if volume.claim is None else self._key(volume.claim),
            node_affinity=self._labels.terms(volume.node_affinity),
            zones=tuple(
                (self._labels.key(key), tuple(self._labels.value(key, each) for each in values))
                for key, values in volume.zones
            ),
            handle=self._rename(volume.handle),
        )
