"""Models the devices of one node, and the pods that have some of them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from leadsman.cluster.devices.demand import DeviceDemand, is_extended
from leadsman.cluster.model import ClusterNode, ClusterPod
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
        """Keeps what `leadsman.cluster.devices.cards` computed from this object, by question."""
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


# What is left of a link that pods share by SR-IOV: speed - what its virtual functions may send.


class LinkReading(Struct, frozen=True):
    """Says what a node's agent reads of the physical functions that have virtual functions.

    headroom_bits: per second, speed - Σ max_tx_rate of the physical function that has least left: the kubelet picks the
        function, so the worst one counts.
    limited_bits: Σ max_tx_rate of all virtual functions.
    limited: virtual functions with a max_tx_rate. 0 there means unlimited, and does not count.
    """

    headroom_bits: int
    limited_bits: int
    limited: int


def link_headroom_bits(reading: LinkReading, demands: Iterable[DeviceDemand], resources: Sequence[str]) -> int | None:
    """Returns what is certainly left for one more pod, in bit/s, beside these demands on the node; None: unknown.

    resources: the extended resources that are virtual functions.

    A function without a limit may send at line rate. If its pod says how much it asks, that counts; if a pod that says
    nothing may have such a function, nothing is known. Functions with a limit are taken to be those of pods.
    """
    asked, functions, silent = list[int](), 0, 0
    for demand in demands:
        count = sum(map(demand.amount, resources))
        if demand.bandwidth_bits is not None:
            asked.append(demand.bandwidth_bits)
            functions += count
        else:
            silent += count
    if silent and reading.limited < functions + silent:
        return None
    unlimited = sum(sorted(asked, reverse=True)[: max(0, len(asked) - reading.limited)])
    return min(reading.headroom_bits - unlimited, reading.headroom_bits + reading.limited_bits - sum(asked))
