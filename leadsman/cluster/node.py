"""Models a node as the API server has it."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.cluster.constraints import Taint
from leadsman.cluster.resources import ZERO, Resources
from leadsman.kube.names import ZONE_LABEL as ZONE_LABEL


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

    @property
    def zone(self) -> str:
        """Returns the node's zone; "": it is in none."""
        return self.labels.get(ZONE_LABEL, "")

    def rack(self, label: str) -> str:
        """Returns the node's rack, which a label of the cluster's own names; "": it is in none."""
        return self.labels.get(label, "")
