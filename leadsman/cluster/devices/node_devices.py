"""Models the devices of one node, and the pods that have some of them."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from leadsman.cluster.devices.demand import DeviceDemand, is_extended
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.kube.names import DEVICE_LABEL_PREFIXES


class DeviceCount(Struct, frozen=True, gc=False):
    """Counts devices of a node that DRA drivers publish.

    total: devices in ResourceSlices.
    free: of these, those that no claim was given and that no taint keeps pods off.
    """

    total: int
    free: int


class NodeDevices(Struct, frozen=True, omit_defaults=True, dict=True):
    """The devices of a node, and the pods that have some of them.

    allocatable: extended resource → amount.
    labels: those that describe devices.
    pods: UID → what the pod asks of devices, for pods bound to the node that ask something; oldest first.
    drivers: DRA driver → its devices.
    selected: selection of claims (`claims`) → the devices that it selects; one that selects none is absent.
    """

    allocatable: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    pods: Mapping[str, DeviceDemand] = {}
    drivers: Mapping[str, DeviceCount] = {}
    selected: Mapping[str, DeviceCount] = {}

    @cached_property
    def cards(self) -> dict[str, Any]:
        """Keeps what `leadsman.cluster.devices.cards` computed from this object, by card resource."""
        return {}

    @cached_property
    def rooms(self) -> dict[bytes, Any]:
        """Keeps what `leadsman.cluster.devices.card_room` computed from this object, by question."""
        return {}

    def free(self, resource: str) -> int:
        """Returns what the bound pods leave of an extended resource."""
        return self.allocatable.get(resource, 0) - sum(pod.amount(resource) for pod in self.pods.values())


NO_DEVICES = NodeDevices()


def node_devices(
    node: ClusterNode,
    pods: Iterable[ClusterPod],
    drivers: Mapping[str, DeviceCount] | None = None,
    selected: Mapping[str, DeviceCount] | None = None,
) -> NodeDevices:
    """Collects the devices of `node` with these pods bound to it; NO_DEVICES when it has none."""
    allocatable = {name: amount for name, amount in node.allocatable.extended.items() if is_extended(name)}
    if not allocatable and not drivers:
        return NO_DEVICES
    having = sorted((pod for pod in pods if pod.devices is not None), key=lambda pod: (pod.created_at, pod.uid))
    return NodeDevices(
        allocatable,
        {name: value for name, value in node.labels.items() if name.startswith(DEVICE_LABEL_PREFIXES)},
        {pod.uid: pod.devices for pod in having if pod.devices is not None},
        drivers or {},
        selected or {},
    )
