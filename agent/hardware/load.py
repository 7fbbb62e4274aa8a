"""Load averages from /proc/loadavg. Source: proc_loadavg(5)."""

from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.files import parsed
from agent.hardware.samples import Roots, Sample, gauge

LOAD1 = gauge("load1", "Load average over 1 minute.")
LOAD5 = gauge("load5", "Load average over 5 minutes.")
LOAD15 = gauge("load15", "Load average over 15 minutes.")


class Load(Struct, frozen=True):
    """Runnable and uninterruptible tasks, averaged."""

    load1: float
    load5: float
    load15: float


def parse(text: str) -> Load:
    load1, load5, load15 = text.split()[:3]
    return Load(float(load1), float(load5), float(load15))


def collect(roots: Roots) -> Iterator[Sample]:
    load = parsed(f"{roots.proc}/loadavg", parse)
    yield LOAD1(load.load1)
    yield LOAD5(load.load5)
    yield LOAD15(load.load15)
