"""CPU time and online CPUs, from psutil.

CPU time is summed over all CPUs, so that the number of series does not grow with the cores. `guest` is part of
`user` and left out. Source: proc_stat(5).
"""

from collections.abc import Iterator

from agent.hardware import psutil_source
from agent.hardware.samples import HostRoots, Sample, counter, gauge

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE_MODES = ("idle", "iowait")

SECONDS = counter("cpu_seconds_total", "Seconds all CPUs together spent in each mode.", "mode")
ONLINE = gauge("cpu_online", "CPUs that are online.")


def collect(roots: HostRoots) -> Iterator[Sample]:
    yield ONLINE(psutil_source.online_cpus(roots.proc))
    for mode, seconds in psutil_source.cpu_times(roots.proc)._asdict().items():
        if mode in MODES:
            yield SECONDS(seconds, mode)
