"""Models a pod as the API server has it."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.cluster.constraints import UNCONSTRAINED, PodConstraints
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.resources import Resources
from leadsman.kube.names import MIRROR_POD_KEY


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
