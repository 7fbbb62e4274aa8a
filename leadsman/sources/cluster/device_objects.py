"""ResourceSlices and ResourceClaims of Dynamic Resource Allocation: what drivers publish, and what claims were given.

resource.k8s.io/v1: k8s.io/api/resource/v1/types.go.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple

from msgspec import Struct

from leadsman.cluster.devices.node_devices import DriverDevices
from leadsman.kube import quantity
from leadsman.sources.cluster.object_metadata import MetadataFields

_REPELLING = ("NoSchedule", "NoExecute")


class DeviceId(NamedTuple):
    """A device of the cluster."""

    driver: str
    pool: str
    device: str


Counted = tuple[str, str]
"""A counter set of a pool, and a counter of it: what parts of one device have in common (KEP-4815)."""


class PublishedDevice(NamedTuple):
    """A device as its driver publishes it.

    usable: no taint of the driver keeps pods off it.
    shareable: several claims may have it at a time.
    takes: of the pool's counters, in nanos.
    """

    identity: DeviceId
    usable: bool
    shareable: bool
    takes: Mapping[Counted, int]


class _Fields(Struct, frozen=True, gc=False, rename="camel"):
    pass


class _TaintFields(_Fields, frozen=True):
    effect: str = ""


class _CounterFields(_Fields, frozen=True):
    value: str | int | float = "0"


class _CounterSetFields(_Fields, frozen=True):
    """Counters that devices of a pool share, under `name`, or what a device takes of them, under `counter_set`."""

    name: str = ""
    counter_set: str = ""
    counters: Mapping[str, _CounterFields] = {}


class _DeviceFields(_Fields, frozen=True):
    """allow_multiple_allocations: several claims share the device (KEP-5075), so none of them takes it."""

    name: str
    taints: tuple[_TaintFields, ...] = ()
    consumes_counters: tuple[_CounterSetFields, ...] = ()
    allow_multiple_allocations: bool | None = None


class _PoolFields(_Fields, frozen=True):
    name: str
    generation: int = 0


class _SliceSpec(_Fields, frozen=True):
    driver: str
    pool: _PoolFields
    node_name: str = ""
    devices: tuple[_DeviceFields, ...] = ()
    shared_counters: tuple[_CounterSetFields, ...] = ()


class ResourceSliceObject(Struct, frozen=True, gc=False):
    """Devices that a driver publishes, mostly of one node."""

    metadata: MetadataFields
    spec: _SliceSpec

    def devices(self) -> Iterator[PublishedDevice]:
        """Each device."""
        for device in self.spec.devices:
            yield PublishedDevice(
                DeviceId(self.spec.driver, self.spec.pool.name, device.name),
                not any(taint.effect in _REPELLING for taint in device.taints),
                bool(device.allow_multiple_allocations),
                _amounts((each.counter_set, each.counters) for each in device.consumes_counters),
            )

    def counters(self) -> Mapping[Counted, int]:
        """What the devices of its pool share."""
        return _amounts((each.name, each.counters) for each in self.spec.shared_counters)


def _amounts(sets: Iterable[tuple[str, Mapping[str, _CounterFields]]]) -> dict[Counted, int]:
    """In nanos."""
    return {
        (name, counter): quantity.parse(str(fields.value))
        for name, counters in sets
        for counter, fields in counters.items()
    }


class _ResultFields(_Fields, frozen=True):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


class _AllocatedDevices(_Fields, frozen=True):
    results: tuple[_ResultFields, ...] = ()


class _Allocation(_Fields, frozen=True):
    devices: _AllocatedDevices = _AllocatedDevices()


class _ClaimStatus(_Fields, frozen=True):
    allocation: _Allocation | None = None


class ResourceClaimObject(Struct, frozen=True, gc=False):
    """A claim, and what it was given."""

    metadata: MetadataFields
    status: _ClaimStatus = _ClaimStatus()

    def allocated(self) -> Iterator[DeviceId]:
        """The devices that it was given; none before its pod is placed. Access for administration takes no device."""
        if self.status.allocation is not None:
            for each in self.status.allocation.devices.results:
                if not each.admin_access:
                    yield DeviceId(each.driver, each.pool, each.device)


def drivers_by_node(
    slices: Iterable[ResourceSliceObject], claims: Iterable[ResourceClaimObject]
) -> Mapping[str, Mapping[str, DriverDevices]]:
    """Node → driver → its devices. Of a pool, the newest generation counts; devices of no single node are left out.

    A part of a divided device is free while the pool's counters have what it takes left, beside those that were given.
    """
    listed = [each for each in slices if each.spec.node_name]
    newest: dict[tuple[str, str], int] = {}
    for each in listed:
        pool = (each.spec.driver, each.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), each.spec.pool.generation)
    taken = {device for claim in claims for device in claim.allocated()}
    pools: dict[tuple[str, str], list[ResourceSliceObject]] = {}
    for each in listed:
        pool = (each.spec.driver, each.spec.pool.name)
        if each.spec.pool.generation == newest[pool]:
            pools.setdefault(pool, []).append(each)
    total, free = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for slices_of_pool in pools.values():
        left = _counters_left(slices_of_pool, taken)
        for each in slices_of_pool:
            at = (each.spec.node_name, each.spec.driver)
            devices = list(each.devices())
            total[at] += len(devices)
            free[at] += sum(_is_free(device, taken, left) for device in devices)
    by_node: dict[str, dict[str, DriverDevices]] = {}
    for (node, driver), count in total.items():
        by_node.setdefault(node, {})[driver] = DriverDevices(count, free[node, driver])
    return by_node


def _counters_left(slices: Iterable[ResourceSliceObject], taken: Set[DeviceId]) -> Counter[Counted]:
    """Of one pool. Its counters and the devices that take of them may be in different slices."""
    left = Counter[Counted]()
    for each in slices:
        left.update(each.counters())
        for device in each.devices():
            if device.identity in taken:
                left.subtract(device.takes)
    return left


def _is_free(device: PublishedDevice, taken: Set[DeviceId], left: Mapping[Counted, int]) -> bool:
    if not device.usable or (device.identity in taken and not device.shareable):
        return False
    return all(amount <= left[counter] for counter, amount in device.takes.items())
