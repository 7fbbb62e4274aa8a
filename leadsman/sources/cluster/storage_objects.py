"""PersistentVolumes, PersistentVolumeClaims and StorageClasses."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from leadsman.cluster.resources import Resources
from leadsman.cluster.selectors import NodeSelectorTerm, Operator, Requirement
from leadsman.cluster.storage import Claim, StorageClass, Volume
from leadsman.sources.cluster.object_metadata import MetadataFields
from leadsman.sources.cluster.pod_fields import ResourceFields, ResourceList
from leadsman.sources.cluster.selector_fields import NodeSelectorFields

ZONE_LABELS: Mapping[str, str] = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Label of a volume → the label of the nodes that reach it."""


class _Fields(Struct, frozen=True, gc=False, rename="camel"):
    pass


class _ClaimSpec(_Fields, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    resources: ResourceFields = ResourceFields()


class ClaimObject(Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim."""

    metadata: MetadataFields
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
        )


class _CSIFields(_Fields, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class _VolumeAffinity(_Fields, frozen=True):
    required: NodeSelectorFields | None = None


class _ClaimReference(_Fields, frozen=True):
    namespace: str = ""
    name: str = ""


class _VolumeSpec(_Fields, frozen=True):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    claim_ref: _ClaimReference | None = None
    node_affinity: _VolumeAffinity = _VolumeAffinity()
    csi: _CSIFields = _CSIFields()


class VolumeObject(Struct, frozen=True, gc=False):
    """A PersistentVolume."""

    metadata: MetadataFields
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
            None if required is None else required.terms(),
            tuple(self._zones()),
            self.spec.csi.driver,
            self.spec.csi.volume_handle,
        )

    def _zones(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """A volume in several zones has them in one label: `zone-a__zone-b`."""
        for label, node_label in ZONE_LABELS.items():
            if label in self.metadata.labels:
                yield node_label, tuple(self.metadata.labels[label].split("__"))


class _TopologyExpression(_Fields, frozen=True):
    key: str
    values: tuple[str, ...] = ()


class _TopologyTerm(_Fields, frozen=True):
    match_label_expressions: tuple[_TopologyExpression, ...] = ()

    def term(self) -> NodeSelectorTerm:
        return NodeSelectorTerm(
            tuple(Requirement(each.key, Operator.IN, each.values) for each in self.match_label_expressions)
        )


class StorageClassObject(_Fields, frozen=True):
    """A StorageClass."""

    metadata: MetadataFields
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
