"""CPU time from /proc/stat, summed over all CPUs so that the number of series does not grow with the cores.

Source: proc_stat(5). Ticks are USER_HZ, 100 a second on every Linux that runs Kubernetes.
`guest` is part of `user` and left out.
"""

from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, Sample, counter, gauge

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE_MODES = ("idle", "iowait")

SECONDS = counter("cpu_seconds_total", "Seconds all CPUs together spent in each mode.", "mode")
ONLINE = gauge("cpu_online", "CPUs that are online.")

_USER_HZ = 100


class CpuTimes(Struct, frozen=True):
    """Seconds since boot by mode, over all CPUs; how many are online."""

    seconds: dict[str, float]
    online: int


def parse(text: str) -> CpuTimes:
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    ticks = [int(tick) for tick in lines[0][1:]]
    return CpuTimes({mode: tick / _USER_HZ for mode, tick in zip(MODES, ticks, strict=False)}, len(lines) - 1)


def collect(roots: HostRoots) -> Iterator[Sample]:
    cpu = parse_file(f"{roots.proc}/stat", parse)
    yield ONLINE(cpu.online)
    for mode, seconds in cpu.seconds.items():
        yield SECONDS(seconds, mode)
