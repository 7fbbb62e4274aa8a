"""Models the cluster at one moment, its nodes, pods, volumes, budgets and quotas, and derives another one from it."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.constraints import UNCONSTRAINED, LabelSelector, NodeSelectorTerm, PodConstraints, Taint
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.resources import ZERO, Resources
from leadsman.kube.names import HELD_FOR_LABEL, MIRROR_POD_KEY, PLACEHOLDER_LABEL, PLACEHOLDER_NAMESPACE
from leadsman.kube.names import ZONE_LABEL as ZONE_LABEL


class Location(Struct, frozen=True):
    """Says in which zone and rack a node is; "" when unknown. Racks count within a zone: two zones may each have a rack
    "1"."""

    zone: str = ""
    rack: str = ""

    @property
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """Returns the names of the node's rack and zone, as far as they are known: each fails as one."""
        rack = (("rack", self.zone, self.rack),) if self.rack else ()
        return (*rack, ("zone", self.zone)) if self.zone else rack

    def completed(self, zone: str, rack: str) -> "Location":
        """Returns the location with these where it says nothing: what a node's agent reports counts where its labels do
        not say. An agent reads its zone from the label, and knows no rack unless it was told."""
        return Location(self.zone or zone, self.rack or rack)


def labelled_location(labels: Mapping[str, str], rack_label: str) -> Location:
    """Returns where a node is by its labels. rack_label: the one of the cluster's own that names racks."""
    return Location(labels.get(ZONE_LABEL, ""), labels.get(rack_label, ""))


class ClusterNode(Struct, frozen=True, gc=False, omit_defaults=True):
    """A node, with what decisions and plans use of it.

    labels_cut: how many labels are not here, because it has too many (leadsman.kube.bounded_metadata).
    annotations: those that are used here.
    unschedulable: cordoned.
    allocatable: with its pod slots.
    ready: by its condition Ready; None: Unknown, or the node has no such condition.
    attach_limits: CSI driver → volumes that it can attach to this node; a driver that is absent has no limit.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = {}
    labels_cut: int = 0
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resources = ZERO
    ready: bool | None = None
    attach_limits: Mapping[str, int] = {}


class ClusterPod(Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod that has not finished.

    node: "" until it is bound.
    workload: as leadsman.decision.inputs has it: `deployment/web`, `statefulset/db`, `pod/alone`.
    owner_kind, owner_uid: its controller: ReplicaSet, StatefulSet, DaemonSet, Job, …; "": it has none.
    requests: as kube-scheduler counts them, with one pod slot.
    labels, constraints: shared by pods of one template. Bounds are the labels `delay_*`, among others.
    labels_cut: how many labels are not here, because it has too many (leadsman.kube.bounded_metadata).
    annotations: those that are used here.
    excess: which labels and annotations that decide are missing here, because there are too many; "" when none is.
    claims: names of its PersistentVolumeClaims, in its namespace; those of ephemeral volumes too.
    local_volumes: whether it keeps data on the node: emptyDir or hostPath.
    phase: Pending, Running or Unknown.
    terminating: it is being deleted.
    created_at: Unix seconds, by the API server's clock.
    gated: kube-scheduler does not look at it yet.
    has_deadline: it ends by itself (activeDeadlineSeconds).
    devices: what it asks of devices; None: nothing. bad_demand: why that cannot be read; "" when it can.
    nominated_node: where kube-scheduler has made room for it; "": nowhere.
    """

    uid: str
    namespace: str
    name: str
    node: str = ""
    workload: str = ""
    owner_kind: str = ""
    owner_uid: str = ""
    priority: int = 0
    priority_class: str = ""
    requests: Resources = Resources(pods=1)
    labels: Mapping[str, str] = {}
    labels_cut: int = 0
    annotations: Mapping[str, str] = {}
    excess: str = ""
    constraints: PodConstraints = UNCONSTRAINED
    claims: tuple[str, ...] = ()
    local_volumes: bool = False
    phase: str = "Pending"
    terminating: bool = False
    created_at: float = 0.0
    ready: bool = False
    gated: bool = False
    has_deadline: bool = False
    nominated_node: str = ""
    devices: DeviceDemand | None = None
    bad_demand: str = ""

    @property
    def mirror(self) -> bool:
        """Tells whether the pod shows a static pod of a kubelet; deleting it stops nothing."""
        return MIRROR_POD_KEY in self.annotations or self.owner_kind == "Node"

    @property
    def placeholder(self) -> str | None:
        """Returns the label of the node that this placeholder is for; None: it is none. Anybody may set the label, so
        elsewhere than in its namespace it means nothing."""
        return self.labels.get(PLACEHOLDER_LABEL) if self.namespace == PLACEHOLDER_NAMESPACE else None

    @property
    def held_for(self) -> str | None:
        """Returns the UID of the pod that this one holds room for while it is moved; None: it holds none."""
        return self.labels.get(HELD_FOR_LABEL) if self.namespace == PLACEHOLDER_NAMESPACE else None


# Claims and volumes, as far as they decide where a pod can be.

NamespacedName = tuple[str, str]

NO_PROVISIONER = "kubernetes.io/no-provisioner"

FILESYSTEM = "Filesystem"
"""The mode of a volume that is mounted; the other is Block."""


class Claim(Struct, frozen=True, omit_defaults=True):
    """A PersistentVolumeClaim.

    volume: name of the volume that it is bound to; "": not yet.
    storage_class: "": none.
    bytes: requested.
    terminating: it is being deleted.
    mode: Filesystem or Block, of its volume too.
    selector: what the labels of its volume must match; None: any labels.
    """

    namespace: str
    name: str
    volume: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    bytes: int = 0
    terminating: bool = False
    mode: str = FILESYSTEM
    selector: LabelSelector | None = None

    @property
    def single_node(self) -> bool:
        """Tells whether the claim's volume is attached to at most one node at a time."""
        return bool(self.access_modes) and all(mode.startswith("ReadWriteOnce") for mode in self.access_modes)

    @property
    def single_pod(self) -> bool:
        """Tells whether at most one pod may use the claim."""
        return "ReadWriteOncePod" in self.access_modes


class Volume(Struct, frozen=True, omit_defaults=True):
    """A PersistentVolume.

    node_affinity: the nodes that reach it; None: every node does.
    zones: node label → the values with which a node reaches it, of the volume's own labels of zone and region.
    driver: its CSI driver; "": another kind of volume.
    handle: what the driver calls it: volumes of one handle are attached once.
    claim: the claim that it is bound to, or reserved for; None: it is free.
    terminating: it is being deleted.
    """

    name: str
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    bytes: int = 0
    claim: NamespacedName | None = None
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    driver: str = ""
    handle: str = ""
    mode: str = FILESYSTEM
    labels: Mapping[str, str] = {}
    terminating: bool = False

    def reaches(self, node: ClusterNode) -> bool:
        """Tells whether pods on the node can use the volume, by its node affinity and its zone.

        CheckNodeAffinity of k8s.io/component-helpers/storage/volume/helpers.go, and
        pkg/scheduler/framework/plugins/volumezone/volume_zone.go.
        """
        terms = self.node_affinity
        if terms is not None and not any(term.matches(node.name, node.labels) for term in terms):
            return False
        zones = [(node.labels.get(label), values) for label, values in self.zones]
        return all(value is None for value, _ in zones) or all(value in values for value, values in zones)

    def serves(self, claim: Claim) -> bool:
        """Tells whether an unbound claim could be bound to the volume.

        FindMatchingVolume of k8s.io/component-helpers/storage/volume/pv_helpers.go.
        """
        if self.terminating or self.mode != claim.mode or self.bytes < claim.bytes:
            return False
        if self.claim is not None:
            return self.claim == (claim.namespace, claim.name)
        modes = set(claim.access_modes) <= set(self.access_modes)
        selected = claim.selector is None or claim.selector.matches(self.labels)
        return modes and selected and self.storage_class == claim.storage_class


class StorageClass(Struct, frozen=True, omit_defaults=True):
    """A class of volumes: which driver makes them, when, and where.

    waits_for_consumer: a claim is bound where its first pod goes (WaitForFirstConsumer).
    provisioner: NO_PROVISIONER: volumes are made by hand.
    allowed_topologies: at least one term matches a node where a volume can be made; None: any node.
    """

    name: str
    waits_for_consumer: bool = False
    provisioner: str = ""
    allowed_topologies: tuple[NodeSelectorTerm, ...] | None = None

    def provisions(self, node: ClusterNode) -> bool:
        """Tells whether a volume can be made for a pod on the node."""
        terms = self.allowed_topologies
        if self.provisioner == NO_PROVISIONER:
            return False
        return terms is None or any(term.matches(node.name, node.labels) for term in terms)


class Storage(Struct, frozen=True):
    """Holds all claims, volumes and storage classes. The default knows none, as where they are not followed."""

    claims: Mapping[NamespacedName, Claim] = {}
    volumes: Mapping[str, Volume] = {}
    classes: Mapping[str, StorageClass] = {}


NO_STORAGE = Storage()


class DisruptionBudget(Struct, frozen=True, omit_defaults=True):
    """A PodDisruptionBudget limits evictions.

    selector: None: no pod.
    disruptions_allowed: evictions that are allowed now. 0 also when the disruption controller has not looked yet.
    observed: whether status is of this generation; if not, no eviction is allowed.
    unhealthy_always: unhealthyPodEvictionPolicy AlwaysAllow: pods that are not ready may be evicted in any case.
    """

    namespace: str
    name: str
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed: bool = True
    unhealthy_always: bool = False

    def covers(self, pod: ClusterPod) -> bool:
        """Tells whether the budget limits the evictions of this pod."""
        return pod.namespace == self.namespace and self.selector is not None and self.selector.matches(pod.labels)


class QuotaScope(Struct, frozen=True, omit_defaults=True):
    """Restricts a quota to pods of this scope. name: Terminating, NotTerminating, BestEffort, NotBestEffort,
    PriorityClass or CrossNamespacePodAffinity. operator, values: of PriorityClass."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class Quota(Struct, frozen=True, omit_defaults=True):
    """A ResourceQuota, which limits what the pods of a namespace use.

    hard, used: what it limits → amount, as the quota names it: `pods`, `requests.cpu` in millis, `limits.memory` in
    bytes, `requests.example.com/gpu`. `cpu` and `memory` stand as `requests.cpu` and `requests.memory`.
    scopes: it counts only pods to which all of these apply.
    """

    namespace: str
    name: str
    hard: Mapping[str, int] = {}
    used: Mapping[str, int] = {}
    scopes: tuple[QuotaScope, ...] = ()


K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class Overlay(Mapping[K, V], Generic[K, V]):
    """An immutable mapping: `base` with `changes` laid over it. A change costs as much as there are changes.

    changes: key → its value now; None: the key is gone. Once their number squared exceeds the base's size, they become
    part of a new base, so that neither copying them nor copying the base is ever expensive.
    """

    __slots__ = ("_remembered", "_size", "base", "changes")

    def __init__(self, base: Mapping[K, V]):
        self.base = base
        self.changes: Mapping[K, V | None] = {}
        self._remembered: dict[Hashable, Any] = {}
        self._size = -1

    def replaced(self, changes: Mapping[K, V | None]) -> "Overlay[K, V]":
        """Returns the mapping with these changes; None removes a key."""
        if not changes:
            return self
        merged = {**self.changes, **changes}
        if len(merged) ** 2 > len(self.base):
            return Overlay(_merged(self.base, merged))
        overlay = Overlay(self.base)
        overlay.changes, overlay._remembered = merged, self._remembered
        return overlay

    def of_base(self, key: Hashable, compute: Callable[[Mapping[K, V]], R]) -> R:
        """Returns what `compute` makes of the base, kept under `key` for every mapping that shares the base."""
        if key not in self._remembered:
            self._remembered[key] = compute(self.base)
        remembered: R = self._remembered[key]
        return remembered

    def __getitem__(self, key: K) -> V:
        if key not in self.changes:
            return self.base[key]
        value = self.changes[key]
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.changes[key] is not None if key in self.changes else key in self.base  # type: ignore[index]

    def __iter__(self) -> Iterator[K]:
        """Returns those of the base in its order, then the added ones."""
        changes = self.changes
        yield from (key for key in self.base if key not in changes or changes[key] is not None)
        yield from (key for key, value in changes.items() if value is not None and key not in self.base)

    def __len__(self) -> int:
        if self._size < 0:
            self._size = sum(1 for _ in self) if self.changes else len(self.base)
        return self._size


def _merged(base: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


UNBOUND = ""
"""The node of a pod that has none."""


class NodePods(Struct, frozen=True):
    """The pods of one node, and what they request together."""

    pods: tuple[ClusterPod, ...] = ()
    requested: Resources = ZERO


NO_PODS = NodePods()


class Cluster(Struct, frozen=True, kw_only=True, eq=False):
    """The cluster at one moment. Build one by `cluster_of`, and derive others from it: they share what is the same.

    nodes: name → node.
    pods: UID → pod that has not finished, bound or not; also on nodes that no longer exist.
    pods_by_node: name → its pods. UNBOUND has those without a node.
    namespaces: name → labels.
    budgets, quotas: of all namespaces.
    """

    nodes: Overlay[str, ClusterNode]
    pods: Overlay[str, ClusterPod]
    pods_by_node: Overlay[str, NodePods]
    budgets: Mapping[NamespacedName, DisruptionBudget] = {}
    quotas: Mapping[NamespacedName, Quota] = {}
    storage: Storage = NO_STORAGE
    namespaces: Mapping[str, Mapping[str, str]] = {}

    def pods_on(self, node: str) -> tuple[ClusterPod, ...]:
        """Returns the pods that are bound to the node, including those that are being deleted."""
        return self.pods_by_node.get(node, NO_PODS).pods

    @property
    def unbound_pods(self) -> tuple[ClusterPod, ...]:
        """Returns the pods that have no node yet."""
        return self.pods_on(UNBOUND)

    def requested(self, node: str) -> Resources:
        """Returns what the node's pods request together, including those that are being deleted."""
        return self.pods_by_node.get(node, NO_PODS).requested

    def free(self, node: str) -> Resources:
        """Returns what the node's pods leave of its allocatable; it is negative where overcommitted. Raises
        KeyError."""
        return self.nodes[node].allocatable - self.requested(node)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Returns the labels of a namespace, which include its name, as the API server sees to."""
        return self.namespaces.get(namespace, {"kubernetes.io/metadata.name": namespace})

    def budgets_of(self, pod: ClusterPod) -> tuple[DisruptionBudget, ...]:
        """Returns the budgets that limit the pod's eviction. The Eviction API refuses a pod that has more than one."""
        return tuple(budget for budget in self.budgets.values() if budget.covers(pod))

    def with_pod(self, pod: ClusterPod, node: str) -> "Cluster":
        """Returns the cluster with this pod on this node, whether it is new, unbound or comes from another node."""
        return self.changed(pods={pod.uid: replace(pod, node=node)})

    def without_pod(self, uid: str) -> "Cluster":
        return self.changed(pods={uid: None})

    def changed(
        self, nodes: Mapping[str, ClusterNode | None] | None = None, pods: Mapping[str, ClusterPod | None] | None = None
    ) -> "Cluster":
        """Returns the cluster with these nodes by name and pods by UID; None removes one."""
        return replace(
            self,
            nodes=self.nodes.replaced(nodes or {}),
            pods=self.pods.replaced(pods or {}),
            pods_by_node=self.pods_by_node.replaced(self._changed_node_pods(pods or {})),
        )

    def _changed_node_pods(self, pods: Mapping[str, ClusterPod | None]) -> dict[str, NodePods | None]:
        arriving: dict[str, list[ClusterPod]] = defaultdict(list)
        for uid, pod in pods.items():
            before = self.pods.get(uid)
            if before is not None:
                arriving[before.node]  # a node that loses a pod is computed again too
            if pod is not None:
                arriving[pod.node].append(pod)
        changed: dict[str, NodePods | None] = {}
        for node, added in arriving.items():
            staying = [pod for pod in self.pods_on(node) if pod.uid not in pods]
            changed[node] = _node_pods([*staying, *added])
        return changed


def cluster_of(
    nodes: Iterable[ClusterNode],
    pods: Iterable[ClusterPod],
    *,
    budgets: Iterable[DisruptionBudget] = (),
    quotas: Iterable[Quota] = (),
    storage: Storage = NO_STORAGE,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> Cluster:
    """Builds the cluster of these objects."""
    by_uid = {pod.uid: pod for pod in pods}
    by_node: dict[str, list[ClusterPod]] = defaultdict(list)
    for pod in by_uid.values():
        by_node[pod.node].append(pod)
    return Cluster(
        nodes=Overlay({node.name: node for node in nodes}),
        pods=Overlay(by_uid),
        pods_by_node=Overlay({node: _node_pods(there) for node, there in by_node.items()}),
        budgets={(budget.namespace, budget.name): budget for budget in budgets},
        quotas={(quota.namespace, quota.name): quota for quota in quotas},
        storage=storage,
        namespaces=namespaces or {},
    )


def _node_pods(pods: Iterable[ClusterPod]) -> NodePods:
    there = tuple(pods)
    requested = ZERO
    for pod in there:
        requested += pod.requests
    return NodePods(there, requested)
