"""Decodes the objects besides pods of which the cluster model is made: nodes, budgets, quotas, storage and others."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from leadsman.cluster.constraints import NodeSelectorTerm, Operator, Requirement, Taint
from leadsman.cluster.model import (
    FILESYSTEM,
    Claim,
    ClusterNode,
    DisruptionBudget,
    Quota,
    QuotaScope,
    StorageClass,
    Volume,
)
from leadsman.cluster.resources import Resources
from leadsman.kube.objects import Condition, ObjectMeta, Part, condition
from leadsman.sources.cluster.pod_object import (
    NO_RESOURCES,
    LabelSelectorFields,
    NodeSelectorFields,
    ResourceFields,
    ResourceList,
)

# Nodes, and what drivers say of them on CSINodes.

_NO_LIMITS: Mapping[str, int] = {}


class _NodeSpec(Part, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class _NodeStatus(Part, frozen=True):
    allocatable: Mapping[str, str | int | float] = {}
    conditions: tuple[Condition, ...] = ()


_NO_SPEC, _NO_STATUS, _NO_NODE = _NodeSpec(), _NodeStatus(), ClusterNode("")


class NodeObject(Struct, gc=False):
    """A node that keeps only its identity and its `model` once it is decoded; the model has no attach limits yet."""

    metadata: ObjectMeta
    spec: _NodeSpec = _NO_SPEC
    status: _NodeStatus = _NO_STATUS
    model: ClusterNode = _NO_NODE

    def __post_init__(self) -> None:
        meta = self.metadata
        self.model = ClusterNode(
            name=meta.name,
            uid=meta.uid,
            labels=meta.labels,
            labels_cut=meta.labels.cut,
            annotations=meta.used_annotations(),
            taints=self.spec.taints,
            unschedulable=self.spec.unschedulable,
            allocatable=Resources.of(self.status.allocatable),
            ready=condition(self.status.conditions, "Ready"),
        )
        self.metadata, self.spec, self.status = meta.identity(), _NO_SPEC, _NO_STATUS


class _Allocatable(Part, frozen=True):
    count: int | None = None


class _DriverFields(Part, frozen=True):
    name: str
    allocatable: _Allocatable = _Allocatable()


class _CSINodeSpec(Part, frozen=True):
    drivers: tuple[_DriverFields, ...] = ()


class CSINodeObject(Part, frozen=True):
    """A CSINode, which has its node's name and says how many volumes each driver can attach there."""

    metadata: ObjectMeta
    spec: _CSINodeSpec = _CSINodeSpec()

    @property
    def attach_limits(self) -> Mapping[str, int]:
        """Maps each driver to how many volumes it can attach; a driver without a limit is absent."""
        limits = {each.name: each.allocatable.count for each in self.spec.drivers}
        return {name: count for name, count in limits.items() if count is not None} or _NO_LIMITS


# PodDisruptionBudgets, ResourceQuotas and Namespaces.


class _BudgetSpec(Part, frozen=True):
    selector: LabelSelectorFields | None = None
    unhealthy_pod_eviction_policy: str = ""


class _BudgetStatus(Part, frozen=True):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0


class BudgetObject(Part, frozen=True):
    """A PodDisruptionBudget of policy/v1, as the API server sends it."""

    metadata: ObjectMeta
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()

    @property
    def model(self) -> DisruptionBudget:
        return DisruptionBudget(
            namespace=self.metadata.namespace,
            name=self.metadata.name,
            selector=None if self.spec.selector is None else self.spec.selector.selector(),
            disruptions_allowed=self.status.disruptions_allowed,
            current_healthy=self.status.current_healthy,
            desired_healthy=self.status.desired_healthy,
            observed=self.status.observed_generation >= self.metadata.generation,
            unhealthy_always=self.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        )


class _ScopeFields(Part, frozen=True):
    scope_name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class _ScopeSelector(Part, frozen=True):
    match_expressions: tuple[_ScopeFields, ...] = ()


class _QuotaSpec(Part, frozen=True):
    hard: ResourceList = NO_RESOURCES
    scopes: tuple[str, ...] = ()
    scope_selector: _ScopeSelector = _ScopeSelector()


class _QuotaStatus(Part, frozen=True):
    hard: ResourceList = NO_RESOURCES
    used: ResourceList = NO_RESOURCES


class QuotaObject(Part, frozen=True):
    """A ResourceQuota as the API server sends it."""

    metadata: ObjectMeta
    spec: _QuotaSpec = _QuotaSpec()
    status: _QuotaStatus = _QuotaStatus()

    @property
    def model(self) -> Quota:
        by_selector = self.spec.scope_selector.match_expressions
        return Quota(
            self.metadata.namespace,
            self.metadata.name,
            _amounts(self.spec.hard),
            _amounts(self.status.used),
            (
                *(QuotaScope(name) for name in self.spec.scopes),
                *(QuotaScope(each.scope_name, each.operator, each.values) for each in by_selector),
            ),
        )


class NamespaceObject(Part, frozen=True):
    """A Namespace, of which only the labels count."""

    metadata: ObjectMeta

    @property
    def model(self) -> Mapping[str, str]:
        return self.metadata.labels


def _amounts(quantities: ResourceList) -> Mapping[str, int]:
    return dict(_amount(name, quantity) for name, quantity in quantities.items())


def _amount(name: str, quantity: str | int | float) -> tuple[str, int]:
    """`cpu` and `requests.cpu` are one thing; CPU is counted in millis."""
    full = f"requests.{name}" if name in ("cpu", "memory", "ephemeral-storage") else name
    resource = "cpu" if full.endswith(".cpu") else "units"
    return full, Resources.of({resource: quantity}).amount(resource)


# PersistentVolumes, PersistentVolumeClaims and StorageClasses.

ZONE_LABELS: Mapping[str, str] = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Maps each label of a volume to the label of the nodes that reach it."""


class _ClaimSpec(Part, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    resources: ResourceFields = ResourceFields()
    volume_mode: str = FILESYSTEM
    selector: LabelSelectorFields | None = None


class ClaimObject(Part, frozen=True):
    """A PersistentVolumeClaim as the API server sends it."""

    metadata: ObjectMeta
    spec: _ClaimSpec = _ClaimSpec()

    @property
    def model(self) -> Claim:
        return Claim(
            self.metadata.namespace,
            self.metadata.name,
            self.spec.volume_name,
            self.spec.storage_class_name,
            self.spec.access_modes,
            _storage_bytes(self.spec.resources.requests),
            self.metadata.deletion_timestamp is not None,
            self.spec.volume_mode,
            None if self.spec.selector is None else self.spec.selector.selector(),
        )


class _CSIFields(Part, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class _VolumeAffinity(Part, frozen=True):
    required: NodeSelectorFields | None = None


class _ClaimReference(Part, frozen=True):
    namespace: str = ""
    name: str = ""


class _VolumeSpec(Part, frozen=True):
    capacity: ResourceList = NO_RESOURCES
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    claim_ref: _ClaimReference | None = None
    node_affinity: _VolumeAffinity = _VolumeAffinity()
    csi: _CSIFields = _CSIFields()
    volume_mode: str = FILESYSTEM


class VolumeObject(Part, frozen=True):
    """A PersistentVolume as the API server sends it."""

    metadata: ObjectMeta
    spec: _VolumeSpec = _VolumeSpec()

    @property
    def model(self) -> Volume:
        required, claim = self.spec.node_affinity.required, self.spec.claim_ref
        return Volume(
            self.metadata.name,
            self.spec.storage_class_name,
            self.spec.access_modes,
            _storage_bytes(self.spec.capacity),
            None if claim is None else (claim.namespace, claim.name),
            None if required is None else required.node_selector_terms,
            tuple(self._zones()),
            self.spec.csi.driver,
            self.spec.csi.volume_handle,
            self.spec.volume_mode,
            dict(self.metadata.labels),
            self.metadata.deletion_timestamp is not None,
        )

    def _zones(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """A volume in several zones has them in one label: `zone-a__zone-b`."""
        for label, node_label in ZONE_LABELS.items():
            if label in self.metadata.labels:
                yield node_label, tuple(self.metadata.labels[label].split("__"))


class _TopologyExpression(Part, frozen=True):
    key: str
    values: tuple[str, ...] = ()


class _TopologyTerm(Part, frozen=True):
    match_label_expressions: tuple[_TopologyExpression, ...] = ()

    def term(self) -> NodeSelectorTerm:
        return NodeSelectorTerm(
            tuple(Requirement(each.key, Operator.IN, each.values) for each in self.match_label_expressions)
        )


class StorageClassObject(Part, frozen=True):
    """A StorageClass as the API server sends it."""

    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[_TopologyTerm, ...] = ()

    @property
    def model(self) -> StorageClass:
        return StorageClass(
            self.metadata.name,
            self.volume_binding_mode == "WaitForFirstConsumer",
            self.provisioner,
            tuple(each.term() for each in self.allowed_topologies) or None,
        )


def _storage_bytes(amounts: ResourceList) -> int:
    return Resources.of(amounts).amount("storage")
