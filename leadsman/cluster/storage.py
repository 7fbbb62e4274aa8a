"""Models claims and volumes, as far as they decide where a pod can be."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.cluster.node import ClusterNode
from leadsman.cluster.selectors import NodeSelectorTerm

NamespacedName = tuple[str, str]

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Claim(Struct, frozen=True, omit_defaults=True):
    """A PersistentVolumeClaim.

    volume: name of the volume that it is bound to; "": not yet.
    storage_class: "": none.
    bytes: requested.
    terminating: it is being deleted.
    """

    namespace: str
    name: str
    volume: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    bytes: int = 0
    terminating: bool = False

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
        """Tells whether an unbound claim could be bound to the volume."""
        mine = (claim.namespace, claim.name)
        modes = set(claim.access_modes) <= set(self.access_modes)
        free = self.claim in (None, mine)
        return free and modes and self.storage_class == claim.storage_class and self.bytes >= claim.bytes


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
