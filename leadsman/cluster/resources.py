"""Adds up amounts of resources, and what a pod requests as kube-scheduler counts it."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Self

from msgspec import Struct

from leadsman.kube import quantity

_NANOS_OF_A_MILLI = quantity.NANO // 1000

NOTHING: Mapping[str, int] = {}


class Resources(Struct, frozen=True, weakref=True, omit_defaults=True):
    """An amount of every resource. It may be negative: an overcommitted node has less than nothing free.

    cpu_millis: thousandths of a core.
    pods: pod slots: 1 for a pod.
    extended: every other resource → amount: ephemeral-storage and hugepages-* in bytes, devices by number.

    Zeros are left out by `of` and by arithmetic, so that equal amounts are equal.
    """

    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0
    extended: Mapping[str, int] = NOTHING

    @classmethod
    def of(cls, quantities: Mapping[str, str | int | float]) -> Self:
        """Reads a ResourceList of the API: `{"cpu": "250m", "memory": "64Mi"}`. Fractions round up.
        quantity.BadQuantity.

        Like MilliValue and Value of k8s.io/apimachinery/pkg/api/resource/quantity.go.
        """
        amounts = {name: _whole_units(str(q)) for name, q in quantities.items() if name != "cpu"}
        cpu_millis = _whole_units(str(quantities.get("cpu", 0)), _NANOS_OF_A_MILLI)
        memory_bytes, pods = amounts.pop("memory", 0), amounts.pop("pods", 0)
        return cls(cpu_millis, memory_bytes, pods, _without_zeros(amounts))

    def __add__(self, other: "Resources") -> "Resources":
        return self._plus(other, 1)

    def __sub__(self, other: "Resources") -> "Resources":
        return self._plus(other, -1)

    def _plus(self, other: "Resources", sign: int) -> "Resources":
        extended = self.extended
        if other.extended:
            names = {**self.extended, **other.extended}
            extended = {name: self.extended.get(name, 0) + sign * other.extended.get(name, 0) for name in names}
            extended = _without_zeros(extended)
        return Resources(
            self.cpu_millis + sign * other.cpu_millis,
            self.memory_bytes + sign * other.memory_bytes,
            self.pods + sign * other.pods,
            extended,
        )

    def maximum(self, other: "Resources") -> "Resources":
        """Returns the larger amount of each resource."""
        names = self.extended.keys() | other.extended.keys()
        return Resources(
            max(self.cpu_millis, other.cpu_millis),
            max(self.memory_bytes, other.memory_bytes),
            max(self.pods, other.pods),
            _without_zeros({name: max(self.extended.get(name, 0), other.extended.get(name, 0)) for name in names}),
        )

    def items(self) -> Iterator[tuple[str, int]]:
        """Yields name and amount of each resource of which there is some: `cpu` in millis, `memory` in bytes."""
        named = (("cpu", self.cpu_millis), ("memory", self.memory_bytes), ("pods", self.pods))
        yield from ((name, amount) for name, amount in named if amount)
        yield from self.extended.items()

    def in_cores(self) -> Mapping[str, float]:
        """Returns the cores of `cpu`, the bytes of `memory` and each other amount, without pod slots."""
        return {"cpu": self.cpu_millis / 1000, "memory": self.memory_bytes, **self.extended}

    def amount(self, resource: str) -> int:
        """Returns the amount of one resource: `cpu` in millis, `memory` in bytes."""
        match resource:
            case "cpu":
                return self.cpu_millis
            case "memory":
                return self.memory_bytes
            case "pods":
                return self.pods
        return self.extended.get(resource, 0)

    def fits(self, free: "Resources") -> bool:
        """Tells whether a request of this much finds its room in what is free."""
        return (
            (not self.cpu_millis or self.cpu_millis <= free.cpu_millis)
            and (not self.memory_bytes or self.memory_bytes <= free.memory_bytes)
            and (not self.pods or self.pods <= free.pods)
            and all(amount <= free.extended.get(name, 0) for name, amount in self.extended.items())
        )

    def shortfall(self, free: "Resources") -> dict[str, int]:
        """Returns what a request of this much lacks: resource → millis of `cpu`, bytes of `memory`, units of any other.
        What is not requested never lacks, also on an overcommitted node.

        As fitsRequest of kube-scheduler: pkg/scheduler/framework/plugins/noderesources/fit.go.
        """
        lacking = ((name, amount - free.amount(name)) for name, amount in self.items())
        return {name: missing for name, missing in lacking if missing > 0}


ZERO = Resources()


def amount_text(resource: str, amount: int) -> str:
    """Writes an amount of one resource for people: `300m cpu`, `1.5 GiB of memory`, `2 pods`."""
    if resource == "cpu":
        return f"{amount}m cpu"
    if resource != "memory":
        return f"{amount} {resource}"
    for unit, size in _MEMORY_UNITS:
        if amount >= size:
            return f"{amount / size:.4g} {unit} of memory"
    return f"{amount} bytes of memory"


_MEMORY_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20))


class ContainerRequest(Struct, frozen=True):
    """Says what one container requests.

    requests: by its spec.
    allocated: what the kubelet last reported of a running one, the larger of allocated and actuated; None: nothing.
    restartable: an init container that keeps running beside the others ("sidecar").
    """

    requests: Resources
    allocated: Resources | None = None
    restartable: bool = False


def pod_requests(
    containers: Iterable[ContainerRequest],
    init_containers: Iterable[ContainerRequest] = (),
    overhead: Resources = ZERO,
    pod_level: Mapping[str, int] = NOTHING,
) -> Resources:
    """Returns what kube-scheduler counts for the pod and its pod slot: PodRequests of
    k8s.io/component-helpers/resource/helpers.go.

    pod_level: resource → amount (as Resources.amount) requested for the pod as a whole, in place of its containers'.
    """
    running, sidecars, starting = ZERO, ZERO, ZERO
    for container in containers:
        running += _container_request(container)
    for container in init_containers:
        request = _container_request(container)
        if container.restartable:
            running, sidecars = running + request, sidecars + request
            starting = starting.maximum(sidecars)
        else:
            starting = starting.maximum(sidecars + request)
    requested = running.maximum(starting)
    return _replaced(requested, pod_level) + overhead + Resources(pods=1)


def _container_request(container: ContainerRequest) -> Resources:
    """While a resize is under way, the larger of what is asked and what is held."""
    if container.allocated is None:
        return container.requests
    return container.requests.maximum(container.allocated)


def _replaced(requested: Resources, amounts: Mapping[str, int]) -> Resources:
    if not amounts:
        return requested
    extended = {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    return Resources(
        amounts.get("cpu", requested.cpu_millis),
        amounts.get("memory", requested.memory_bytes),
        requested.pods,
        _without_zeros({**requested.extended, **extended}),
    )


_whole_units = lru_cache(4096)(quantity.whole_units)
"""A cluster has few different quantities, and many of each."""


def _without_zeros(amounts: Mapping[str, int]) -> Mapping[str, int]:
    return {name: amount for name, amount in amounts.items() if amount} or NOTHING
