"""Claims and volumes, as far as they decide where a pod can be."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.cluster.selectors import NodeSelectorTerm

NamespacedName = tuple[str, str]


class Claim(Struct, frozen=True):
    """A PersistentVolumeClaim.

    volume: name of the volume that it is bound to; "": not yet.
    storage_class: "": none.
    """

    namespace: str
    name: str
    volume: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    deleted: bool = False

    @property
    def single_node(self) -> bool:
        """Whether its volume is attached to at most one node at a time."""
        return bool(self.access_modes) and all(mode.startswith("ReadWriteOnce") for mode in self.access_modes)

    @property
    def single_pod(self) -> bool:
        """Whether at most one pod may use it."""
        return "ReadWriteOncePod" in self.access_modes


class Volume(Struct, frozen=True):
    """A PersistentVolume.

    node_affinity: the nodes that reach it; None: every node does.
    zone_labels: its own labels of zone and region, whose values may be several with `__` between them.
    driver: its CSI driver; "": another kind of volume.
    handle: what the driver calls it: volumes of one handle are attached once.
    """

    name: str
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    zone_labels: Mapping[str, str] = {}
    driver: str = ""
    handle: str = ""


class StorageClass(Struct, frozen=True):
    """A class of volumes.

    waits_for_consumer: a claim is bound where its first pod goes (WaitForFirstConsumer).
    provisioner: "kubernetes.io/no-provisioner": volumes are made by hand.
    allowed_topologies: at least one term matches a node where a volume can be made; None: any node.
    """

    name: str
    waits_for_consumer: bool = False
    provisioner: str = ""
    allowed_topologies: tuple[NodeSelectorTerm, ...] | None = None


class Storage(Struct, frozen=True):
    """All claims, volumes and storage classes. The default knows none, as where they are not followed."""

    claims: Mapping[NamespacedName, Claim] = {}
    volumes: Mapping[str, Volume] = {}
    classes: Mapping[str, StorageClass] = {}


NO_STORAGE = Storage()
