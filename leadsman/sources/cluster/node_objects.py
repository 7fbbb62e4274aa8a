"""Nodes, and what drivers say of them on CSINodes."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.cluster.constraints import Taint
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.resources import Resources
from leadsman.sources.cluster.object_metadata import ConditionFields, MetadataFields, condition

_NO_LIMITS: Mapping[str, int] = {}


class _SpecFields(Struct, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class _StatusFields(Struct, frozen=True, gc=False):
    allocatable: Mapping[str, str | int | float] = {}
    conditions: tuple[ConditionFields, ...] = ()


_NO_SPEC, _NO_STATUS, _NO_NODE = _SpecFields(), _StatusFields(), ClusterNode("")


class NodeObject(Struct, gc=False):
    """A node: once it is decoded, its identity and `model`, which has no attach limits yet."""

    metadata: MetadataFields
    spec: _SpecFields = _NO_SPEC
    status: _StatusFields = _NO_STATUS
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


class _Allocatable(Struct, frozen=True, gc=False):
    count: int | None = None


class _DriverFields(Struct, frozen=True, gc=False):
    name: str
    allocatable: _Allocatable = _Allocatable()


class _CSINodeSpec(Struct, frozen=True, gc=False):
    drivers: tuple[_DriverFields, ...] = ()


class CSINodeObject(Struct, frozen=True, gc=False):
    """A CSINode, which has the name of its node."""

    metadata: MetadataFields
    spec: _CSINodeSpec = _CSINodeSpec()

    @property
    def attach_limits(self) -> Mapping[str, int]:
        """Driver → volumes that it can attach; a driver without a limit is absent."""
        limits = {each.name: each.allocatable.count for each in self.spec.drivers}
        return {name: count for name, count in limits.items() if count is not None} or _NO_LIMITS
