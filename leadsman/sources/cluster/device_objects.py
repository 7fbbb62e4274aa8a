"""Decodes the objects of Dynamic Resource Allocation: what drivers publish, what claims ask, and what they were given.

resource.k8s.io/v1: k8s.io/api/resource/v1/types.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import field

from leadsman.cluster.devices.node_devices import ClaimRequests, RequestedWay
from leadsman.kube import quantity
from leadsman.kube.objects import ObjectMeta, Part

_REPELLING = ("NoSchedule", "NoExecute")


class DeviceId(NamedTuple):
    """Identifies a device of the cluster."""

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
    fields: what selectors read of it.
    """

    identity: DeviceId
    usable: bool
    shareable: bool
    takes: Mapping[Counted, int]
    fields: "DeviceFields"


class _TaintFields(Part, frozen=True):
    effect: str = ""


class CapacityFields(Part, frozen=True):
    value: str | int | float = "0"

    def __post_init__(self) -> None:
        quantity.parse(str(self.value))  # A slice whose amounts nobody can read is left out, and reported.


class _CounterSetFields(Part, frozen=True):
    """Counters that devices of a pool share, under `name`, or what a device takes of them, under `counter_set`."""

    name: str = ""
    counter_set: str = ""
    counters: Mapping[str, CapacityFields] = {}


class DeviceAttribute(Part, frozen=True):
    """Holds one attribute of a device, in the field of its type; a list is not read."""

    boolean: bool | None = field(name="bool", default=None)
    integer: int | None = field(name="int", default=None)
    string: str | None = None
    version: str | None = None


class DeviceFields(Part, frozen=True):
    """A device as a ResourceSlice has it.

    allow_multiple_allocations: several claims share it (KEP-5075), so none of them takes it.
    """

    name: str
    taints: tuple[_TaintFields, ...] = ()
    consumes_counters: tuple[_CounterSetFields, ...] = ()
    allow_multiple_allocations: bool | None = None
    attributes: Mapping[str, DeviceAttribute] = {}
    capacity: Mapping[str, CapacityFields] = {}


class _PoolFields(Part, frozen=True):
    name: str
    generation: int = 0


class _SliceSpec(Part, frozen=True):
    driver: str
    pool: _PoolFields
    node_name: str = ""
    devices: tuple[DeviceFields, ...] = ()
    shared_counters: tuple[_CounterSetFields, ...] = ()


class ResourceSliceObject(Part, frozen=True):
    """Devices that a driver publishes, mostly those of one node."""

    metadata: ObjectMeta
    spec: _SliceSpec

    def devices(self) -> Iterator[PublishedDevice]:
        """Yields each device that the slice publishes."""
        for device in self.spec.devices:
            yield PublishedDevice(
                DeviceId(self.spec.driver, self.spec.pool.name, device.name),
                not any(taint.effect in _REPELLING for taint in device.taints),
                bool(device.allow_multiple_allocations),
                _amounts((each.counter_set, each.counters) for each in device.consumes_counters),
                device,
            )

    def counters(self) -> Mapping[Counted, int]:
        """Returns the counters that the devices of its pool share."""
        return _amounts((each.name, each.counters) for each in self.spec.shared_counters)


def _amounts(sets: Iterable[tuple[str, Mapping[str, CapacityFields]]]) -> dict[Counted, int]:
    """Returns the amounts in nanos."""
    return {
        (name, counter): quantity.parse(str(fields.value))
        for name, counters in sets
        for counter, fields in counters.items()
    }


class _ResultFields(Part, frozen=True):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


class _AllocatedDevices(Part, frozen=True):
    results: tuple[_ResultFields, ...] = ()


class _Allocation(Part, frozen=True):
    devices: _AllocatedDevices = _AllocatedDevices()


class _ClaimStatus(Part, frozen=True):
    allocation: _Allocation | None = None


class _CelFields(Part, frozen=True):
    expression: str = ""


class _SelectorFields(Part, frozen=True):
    cel: _CelFields | None = None


class _DeviceClassSpec(Part, frozen=True):
    selectors: tuple[_SelectorFields, ...] = ()
    extended_resource_name: str = ""


class DeviceClassObject(Part, frozen=True):
    """A class of devices. Its extended_resource_name stands for one of them in a container's resources (KEP-5004)."""

    metadata: ObjectMeta
    spec: _DeviceClassSpec = _DeviceClassSpec()


class Selection(NamedTuple):
    """Selects those devices of a DeviceClass that also satisfy a request's own expressions."""

    device_class: str
    expressions: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Returns its name in NodeDevices.selected and in explanations."""
        return " && ".join((f"class {self.device_class}", *self.expressions))


class _WayFields(Part, frozen=True):
    name: str = ""
    device_class_name: str = ""
    selectors: tuple[_SelectorFields, ...] = ()
    allocation_mode: str = ""
    count: int | None = None
    admin_access: bool | None = None

    def selection(self) -> Selection:
        return Selection(self.device_class_name, expressions(self.selectors))

    def way(self, name: str) -> RequestedWay:
        return RequestedWay(name, str(self.selection()), None if self.allocation_mode == "All" else self.count or 1)


def expressions(selectors: Iterable[_SelectorFields]) -> tuple[str, ...]:
    """Returns the selectors' CEL expressions; a selector of another kind is "", which cannot be evaluated."""
    return tuple(each.cel.expression if each.cel else "" for each in selectors)


class _RequestFields(Part, frozen=True):
    name: str = ""
    exactly: _WayFields | None = None
    first_available: tuple[_WayFields, ...] = ()

    def ways(self) -> tuple[_WayFields, ...]:
        """Returns the ways to serve the request; none for administrative access, which takes no device."""
        exactly = () if self.exactly is None or self.exactly.admin_access else (self.exactly,)
        return self.first_available or exactly


class _RequestedDevices(Part, frozen=True):
    requests: tuple[_RequestFields, ...] = ()


class ClaimSpec(Part, frozen=True):
    """Says what a claim, or a template of claims, asks."""

    devices: _RequestedDevices = _RequestedDevices()

    def requests(self) -> ClaimRequests:
        """Returns the requests as a decision takes them."""
        made = []
        for request in self.devices.requests:
            ways = tuple(way.way(way.name or request.name) for way in request.ways())
            if ways:
                made.append(ways)
        return ClaimRequests(tuple(made))

    def selections(self) -> Iterator[Selection]:
        """Returns the selections of all ways of all requests."""
        for request in self.devices.requests:
            for way in request.ways():
                yield way.selection()


class _TemplateSpec(Part, frozen=True):
    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplateObject(Part, frozen=True):
    """A ResourceClaimTemplate, which says what the claims that are made from it ask."""

    metadata: ObjectMeta
    spec: _TemplateSpec = _TemplateSpec()


class ResourceClaimObject(Part, frozen=True):
    """A ResourceClaim, which says what it asks and what it was given."""

    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    def allocated(self) -> Iterator[DeviceId]:
        """Yields the devices that the claim was given: none before its pod is placed, nor for administrative access."""
        if self.status.allocation is not None:
            for each in self.status.allocation.devices.results:
                if not each.admin_access:
                    yield DeviceId(each.driver, each.pool, each.device)
