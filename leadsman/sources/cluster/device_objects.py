"""ResourceSlices and ResourceClaims of Dynamic Resource Allocation: what drivers publish, and what claims were given.

resource.k8s.io/v1: k8s.io/api/resource/v1/types.go.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from leadsman.cluster.devices.node_devices import DriverDevices
from leadsman.sources.cluster.object_metadata import MetadataFields

_REPELLING = ("NoSchedule", "NoExecute")


class DeviceId(NamedTuple):
    """A device of the cluster."""

    driver: str
    pool: str
    device: str


class _Fields(Struct, frozen=True, gc=False, rename="camel"):
    pass


class _TaintFields(_Fields, frozen=True):
    effect: str = ""


class _DeviceFields(_Fields, frozen=True):
    name: str
    taints: tuple[_TaintFields, ...] = ()


class _PoolFields(_Fields, frozen=True):
    name: str
    generation: int = 0


class _SliceSpec(_Fields, frozen=True):
    driver: str
    pool: _PoolFields
    node_name: str = ""
    devices: tuple[_DeviceFields, ...] = ()


class ResourceSliceObject(Struct, frozen=True, gc=False):
    """Devices that a driver publishes, mostly of one node."""

    metadata: MetadataFields
    spec: _SliceSpec

    def devices(self) -> Iterator[tuple[DeviceId, bool]]:
        """Each device, and whether no taint of the driver keeps pods off it."""
        for device in self.spec.devices:
            usable = not any(taint.effect in _REPELLING for taint in device.taints)
            yield DeviceId(self.spec.driver, self.spec.pool.name, device.name), usable


class _ResultFields(_Fields, frozen=True):
    driver: str
    pool: str
    device: str


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
        """The devices that it was given; none before its pod is placed."""
        if self.status.allocation is not None:
            for each in self.status.allocation.devices.results:
                yield DeviceId(each.driver, each.pool, each.device)


def drivers_by_node(
    slices: Iterable[ResourceSliceObject], claims: Iterable[ResourceClaimObject]
) -> Mapping[str, Mapping[str, DriverDevices]]:
    """Node → driver → its devices. Of a pool, the newest generation counts; devices of no single node are left out."""
    listed = [each for each in slices if each.spec.node_name]
    newest: dict[tuple[str, str], int] = {}
    for each in listed:
        pool = (each.spec.driver, each.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), each.spec.pool.generation)
    taken = {device for claim in claims for device in claim.allocated()}
    total, free = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for each in listed:
        if each.spec.pool.generation == newest[each.spec.driver, each.spec.pool.name]:
            at = (each.spec.node_name, each.spec.driver)
            devices = list(each.devices())
            total[at] += len(devices)
            free[at] += sum(usable and device not in taken for device, usable in devices)
    by_node: dict[str, dict[str, DriverDevices]] = {}
    for (node, driver), count in total.items():
        by_node.setdefault(node, {})[driver] = DriverDevices(count, free[node, driver])
    return by_node
