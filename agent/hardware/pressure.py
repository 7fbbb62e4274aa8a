"""Pressure stall information. Source: docs.kernel.org/accounting/psi.html

some avg10=0.09 avg60=0.41 avg300=0.15 total=3935884       percent, percent, percent, microseconds
"""

from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import parse_optional_file
from agent.hardware.samples import HostRoots, NoData, Sample, counter, gauge

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


def collect(roots: HostRoots) -> Iterator[Sample]:
    by_resource = {name: parse_optional_file(f"{roots.proc}/pressure/{name}", parse) for name in RESOURCES}
    if not any(by_resource.values()):
        raise NoData("the kernel has no pressure stall information, or was started with psi=0")
    for name, pressure in by_resource.items():
        yield from _samples(name, pressure or Pressure())


def _stall(line: str) -> tuple[str, Stall]:
    kind, *pairs = line.split()
    fields = dict(pair.split("=") for pair in pairs)
    return kind, Stall(round(float(fields["avg10"]) / 100, 6), int(fields["total"]) / 1e6)


def _samples(name: str, pressure: Pressure) -> Iterator[Sample]:
    if pressure.some:
        yield WAITING_SECONDS[name](pressure.some.total_seconds)
        yield WAITING_RATIO[name](pressure.some.avg10_ratio)
    if pressure.full:
        yield STALLED_SECONDS[name](pressure.full.total_seconds)
