"""Load averages from /proc/loadavg. Source: proc_loadavg(5)."""

from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, Sample, gauge

LOAD1 = gauge("load1", "Load average over 1 minute.")
LOAD5 = gauge("load5", "Load average over 5 minutes.")
LOAD15 = gauge("load15", "Load average over 15 minutes.")


class LoadAverages(Struct, frozen=True):
    """Runnable and uninterruptible tasks, averaged."""

    load1: float
    load5: float
    load15: float


def parse(text: str) -> LoadAverages:
    load1, load5, load15 = text.split()[:3]
    return LoadAverages(float(load1), float(load5), float(load15))


def collect(roots: HostRoots) -> Iterator[Sample]:
    load = parse_file(f"{roots.proc}/loadavg", parse)
    yield LOAD1(load.load1)
    yield LOAD5(load.load5)
    yield LOAD15(load.load15)
