"""Collects pressure stalls (PSI) of the host, and what all pods together use in their control groups (v2).

Source: docs.kernel.org/admin-guide/cgroup-v2.html

Reads the root and the slices next below it, never a pod's own group: the number of series does not grow with the pods.
The root has no memory files, and no cgroup.type. A pod has a cgroup namespace of its own, whose root has both: that is
not the node's, and gives no value.
"""

import os
from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import parse_optional_file
from agent.hardware.samples import HostRoots, NoData, Sample, counter, gauge

# Pressure stall information. Source: docs.kernel.org/accounting/psi.html
#
# some avg10=0.09 avg60=0.41 avg300=0.15 total=3935884       percent, percent, percent, microseconds

RESOURCES = ("cpu", "memory", "io", "irq")

WAITING_SECONDS = {
    name: counter(f"pressure_{name}_waiting_seconds_total", f"Seconds in which some task waited for {name}.")
    for name in RESOURCES
}
STALLED_SECONDS = {
    name: counter(
        f"pressure_{name}_stalled_seconds_total",
        f"Seconds in which no task could run because {name} was not available.",
    )
    for name in RESOURCES
}
WAITING_RATIO = {
    name: gauge(f"pressure_{name}_waiting_ratio", f"Share of the last 10 s in which some task waited for {name}.")
    for name in RESOURCES
}


class Stall(Struct, frozen=True):
    """One line. avg10_ratio: share of the last 10 s, 0..1. total_seconds: since boot."""

    avg10_ratio: float
    total_seconds: float


class Pressure(Struct, frozen=True):
    """The stall of one resource.

    some: at least one task waited. full: all did. None: the kernel has no such line (irq has no `some`).
    """

    some: Stall | None = None
    full: Stall | None = None


def parse(text: str) -> Pressure:
    stalls = dict(_stall(line) for line in text.splitlines())
    return Pressure(stalls.get("some"), stalls.get("full"))


def collect_pressure(roots: HostRoots) -> Iterator[Sample]:
    by_resource = {name: parse_optional_file(f"{roots.proc}/pressure/{name}", parse) for name in RESOURCES}
    if not any(by_resource.values()):
        raise NoData("the kernel has no pressure stall information, or was started with psi=0")
    for name, pressure in by_resource.items():
        yield from _pressure_samples(name, pressure or Pressure())


def _stall(line: str) -> tuple[str, Stall]:
    kind, *pairs = line.split()
    fields = dict(pair.split("=") for pair in pairs)
    return kind, Stall(round(float(fields["avg10"]) / 100, 6), int(fields["total"]) / 1e6)


def _pressure_samples(name: str, pressure: Pressure) -> Iterator[Sample]:
    if pressure.some:
        yield WAITING_SECONDS[name](pressure.some.total_seconds)
        yield WAITING_RATIO[name](pressure.some.avg10_ratio)
    if pressure.full:
        yield STALLED_SECONDS[name](pressure.full.total_seconds)


SLICES = ("", "kubepods.slice", "kubepods", "system.slice")
"""kubepods.slice with the systemd driver, kubepods with cgroupfs."""

CPU_SECONDS = counter("cgroup_cpu_seconds_total", "CPU seconds used by the slice.", "slice")
THROTTLED_SECONDS = counter(
    "cgroup_cpu_throttled_seconds_total", "Seconds that a CPU limit kept the slice from running.", "slice"
)
MEMORY = gauge("cgroup_memory_current_bytes", "Memory used by the slice.", "slice")
MEMORY_MAX = gauge("cgroup_memory_max_bytes", "Memory limit of the slice; no series without a limit.", "slice")
EVENTS = counter("cgroup_memory_events_total", "memory.events of the slice, by event.", "slice", "event")
WAITING = counter(
    "cgroup_pressure_waiting_seconds_total",
    "Seconds in which some task of the slice waited, by resource.",
    "slice",
    "resource",
)

_EVENTS = ("high", "max", "oom", "oom_kill")


class Cgroup(Struct, frozen=True):
    """One control group. None or missing: the controller is off, the limit is "max" or the kernel is older.

    cpu: cpu.stat, microseconds and counts.
    events: memory.events.
    waiting: resource → its pressure.
    """

    cpu: dict[str, int] | None
    memory_bytes: int | None
    memory_max_bytes: int | None
    events: dict[str, int] | None
    waiting: dict[str, Pressure]


def parse_flat(text: str) -> dict[str, int]:
    """Flat keyed files (cpu.stat, memory.events): key → number."""
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}


def parse_limit(text: str) -> int | None:
    """memory.max, bytes; None for "max": no limit."""
    return None if text.strip() == "max" else int(text)


def collect_cgroup(roots: HostRoots) -> Iterator[Sample]:
    root = _unified_root(f"{roots.sys}/fs/cgroup")
    if os.path.exists(f"{root}/cgroup.type"):
        raise NoData(f"{root} is the root of the agent's own cgroup namespace, not the node's")
    for name in SLICES:
        if os.path.isdir(f"{root}/{name}"):
            yield from _samples(name or "/", _read(f"{root}/{name}"))


def _unified_root(mount: str) -> str:
    for root in (mount, f"{mount}/unified"):
        if os.path.exists(f"{root}/cgroup.controllers"):
            return root
    raise NoData(f"no cgroup v2 hierarchy at {mount}")


def _read(path: str) -> Cgroup:
    stalls = {name: parse_optional_file(f"{path}/{name}.pressure", parse) for name in ("cpu", "memory", "io")}
    return Cgroup(
        parse_optional_file(f"{path}/cpu.stat", parse_flat),
        parse_optional_file(f"{path}/memory.current", int),
        parse_optional_file(f"{path}/memory.max", parse_limit),
        parse_optional_file(f"{path}/memory.events", parse_flat),
        {name: stall for name, stall in stalls.items() if stall},
    )


def _samples(name: str, group: Cgroup) -> Iterator[Sample]:
    for key, family in (("usage_usec", CPU_SECONDS), ("throttled_usec", THROTTLED_SECONDS)):
        if key in (group.cpu or {}):
            yield family((group.cpu or {})[key] / 1e6, name)
    for size_bytes, family in ((group.memory_bytes, MEMORY), (group.memory_max_bytes, MEMORY_MAX)):
        if size_bytes is not None:
            yield family(size_bytes, name)
    yield from (EVENTS(count, name, event) for event, count in (group.events or {}).items() if event in _EVENTS)
    yield from (WAITING(stall.some.total_seconds, name, key) for key, stall in group.waiting.items() if stall.some)
