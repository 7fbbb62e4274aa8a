"""Models the devices of one node, the pods that have some of them, and what ResourceClaims ask of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, structs

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

    def without(self, uids: Collection[str]) -> "NodeDevices":
        """Returns the devices as they are when these pods have none of them."""
        return structs.replace(self, pods={uid: each for uid, each in self.pods.items() if uid not in uids})


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


# What ResourceClaims ask is modelled as far as ranking nodes needs it.
#
# A request has one way to be met, or several (`firstAvailable`): the allocator takes the first that the node has free.
# Which devices a way means is a *selection*: a DeviceClass and the request's own selectors. What it selects on a node
# is counted where the node's ResourceSlices are read (NodeDevices.selected).

NO_DEVICE = DeviceCount(0, 0)


class RequestedWay(Struct, frozen=True):
    """One way to meet a request, by so many devices of a selection.

    name: as the claim has it. selection: what its devices are. count: how many; None: all that there are.
    """

    name: str
    selection: str
    count: int | None = 1

    def needs(self, devices: DeviceCount) -> int:
        """Returns how many of these devices the way takes; at least one, even when there are none."""
        return max(devices.total, 1) if self.count is None else self.count


class ClaimRequests(Struct, frozen=True, weakref=True, omit_defaults=True):
    """Says what a claim without devices, or a template of claims, requests.

    requests: of each request that takes devices, its ways, the preferred one first.
    """

    requests: tuple[tuple[RequestedWay, ...], ...] = ()


class ClaimFit(Struct, frozen=True):
    """Says how the requests of a pod's claims are met on a node.

    ways: the position of the way of each request. spare_ratio: of the devices that they select, the share that is free
    afterwards.
    """

    ways: tuple[int, ...]
    spare_ratio: float

    @property
    def has_first_ways(self) -> bool:
        """Tells whether each request is met by the way that it prefers."""
        return not any(self.ways)


def fit_claims(node: NodeDevices, requests: Sequence[Sequence[RequestedWay]]) -> ClaimFit | None:
    """Finds the first way of each request that the node has free devices for; None: one request has no such way.

    Constraints between the requests of a claim are the allocator's.
    """
    left = dict[str, int]()
    ways = list[int]()
    for request in requests:
        for position, way in enumerate(request):
            devices = node.selected.get(way.selection, NO_DEVICE)
            free, needed = left.get(way.selection, devices.free), way.needs(devices)
            if free >= needed:
                left[way.selection] = free - needed
                ways.append(position)
                break
        else:
            return None
    total = sum(node.selected[selection].total for selection in left)
    return ClaimFit(tuple(ways), sum(left.values()) / total if total else 0.0)


def can_have_first_ways(node: NodeDevices, requests: Sequence[Sequence[RequestedWay]]) -> bool:
    """Tells whether the node has the devices of the preferred ways at all, free or not."""
    needed = dict[str, int]()
    for first, *_ in requests:
        devices = node.selected.get(first.selection, NO_DEVICE)
        needed[first.selection] = needed.get(first.selection, 0) + first.needs(devices)
    return all(node.selected.get(selection, NO_DEVICE).total >= count for selection, count in needed.items())


# Devices as drivers publish them and as monitoring reads them: what device health is judged by.

XID = "DCGM_FI_DEV_XID_ERRORS"
"""The last XID error; 0: none since the exporter started."""

ROW_REMAP_FAILURE = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
UNCORRECTABLE_ERRORS = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
"""Double-bit ECC errors since the driver was loaded."""

THROTTLE_REASONS = ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
"""Bits. DCGM 4 has the second, and the first as its deprecated name. The exporter exports neither by default."""

METRICS = (XID, ROW_REMAP_FAILURE, UNCORRECTABLE_ERRORS, *THROTTLE_REASONS)
"""Names and meanings: github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv; dcgm_fields.h."""


class DraDevice(Struct, frozen=True, order=True):
    """A device as a DRA driver publishes it. Raises ValueError when a part is empty.

    In the selector of a DeviceTaintRule a part that is left out matches everything.
    """

    driver: str
    pool: str
    device: str

    def __post_init__(self) -> None:
        if not (self.driver and self.pool and self.device):
            raise ValueError(f"driver {self.driver!r}, pool {self.pool!r} and device {self.device!r} must not be empty")


class DeviceReading(Struct, frozen=True):
    """Says what monitoring last read of one device.

    node: that it is in.
    values: metric → value, by the names of dcgm-exporter.
    read_at: monotonic seconds.
    older: metric that was missing then → when its value was read.
    """

    node: str
    values: Mapping[str, float]
    read_at: float
    older: Mapping[str, float] = {}

    def with_missing(self, before: "DeviceReading | None") -> "DeviceReading":
        """Adds the metrics that are missing, as they were read before."""
        if before is None:
            return self
        older = {name: before.older.get(name, before.read_at) for name in before.values.keys() - self.values.keys()}
        return structs.replace(self, values={**before.values, **self.values}, older=older)

    def values_since(self, moment: float) -> Mapping[str, float]:
        """Returns the values that were read then or later."""
        return {name: value for name, value in self.values.items() if self.older.get(name, self.read_at) >= moment}
