"""Collects what the node computes with: CPUs, memory, and how much work waits for them (pressure, control groups).

Series are summed over CPUs, packages or slices, so that their number grows neither with the cores nor with the pods.
"""

import os
from collections.abc import Iterator

import psutil

from agent.hardware.kernel_files import list_directory, parse_file, parse_optional_file, read_by_psutil
from leadsman.plugin import HostRoots, NoData, Sample, counter, gauge

# CPU time is from psutil. `guest` is part of `user` and left out. Source: proc_stat(5).

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE_MODES = ("idle", "iowait")

SECONDS = counter("cpu_seconds_total", "Seconds all CPUs together spent in each mode.", "mode")
ONLINE = gauge("cpu_online", "CPUs that are online.")


def collect_cpu(roots: HostRoots) -> Iterator[Sample]:
    # Not by psutil.cpu_count, which asks the reader's own /sys.
    yield ONLINE(len(read_by_psutil(roots.proc, "stat", lambda: psutil.cpu_times(percpu=True))))
    for mode, seconds in read_by_psutil(roots.proc, "stat", psutil.cpu_times)._asdict().items():
        if mode in MODES:
            yield SECONDS(seconds, mode)


# Load averages from /proc/loadavg. Source: proc_loadavg(5).

LOAD1 = gauge("load1", "Load average over 1 minute.")
LOAD5 = gauge("load5", "Load average over 5 minutes.")
LOAD15 = gauge("load15", "Load average over 15 minutes.")


def collect_load(roots: HostRoots) -> Iterator[Sample]:
    averages = parse_file(f"{roots.proc}/loadavg", lambda text: [float(each) for each in text.split()[:3]])
    for family, average in zip((LOAD1, LOAD5, LOAD15), averages, strict=True):
        yield family(average)


# How often x86 CPUs slowed down to cool. Source: Documentation/ABI/testing/sysfs-devices-system-cpu, thermal_throttle.
#
# The sibling threads of a core share its counter, and all cores that of the package: each is counted once.

CORE_THROTTLES = counter("cpu_core_throttles_total", "Times a core of the package was throttled.", "package")
PACKAGE_THROTTLES = counter("cpu_package_throttles_total", "Times the package was throttled as a whole.", "package")


def collect_throttling(roots: HostRoots) -> Iterator[Sample]:
    root = f"{roots.sys}/devices/system/cpu"
    cores: dict[int, dict[int, int]] = {}
    packages: dict[int, int | None] = {}
    for path in (f"{root}/{name}" for name in list_directory(root) if name.startswith("cpu") and name[3:].isdigit()):
        count = parse_optional_file(f"{path}/thermal_throttle/core_throttle_count", int)
        if count is not None:
            package = parse_file(f"{path}/topology/physical_package_id", int)
            cores.setdefault(package, {})[parse_file(f"{path}/topology/core_id", int)] = count
            packages[package] = parse_optional_file(f"{path}/thermal_throttle/package_throttle_count", int)
    if not cores:
        raise NoData("no CPU counts its throttling (x86 with the thermal interrupt does)")
    for package, counts in cores.items():
        yield CORE_THROTTLES(sum(counts.values()), str(package))
        whole = packages[package]
        if whole is not None:
            yield PACKAGE_THROTTLES(whole, str(package))


# Memory and swap are from psutil; page cache and dirty pages are from /proc/meminfo, since psutil has no Dirty, and its
# `cached` adds SReclaimable to Cached. Source: proc_meminfo(5), where "kB" means KiB.

MEMORY_TOTAL = gauge("memory_total_bytes", "Usable memory (MemTotal).")
MEMORY_FREE = gauge("memory_free_bytes", "Memory in no use at all (MemFree).")
MEMORY_AVAILABLE = gauge("memory_available_bytes", "Memory that new work can take without swapping (MemAvailable).")
BUFFERS = gauge("memory_buffers_bytes", "Memory in block device buffers (Buffers).")
CACHED = gauge("memory_cached_bytes", "Memory in the page cache (Cached).")
DIRTY = gauge("memory_dirty_bytes", "Memory waiting to be written to disk (Dirty).")
SWAP_TOTAL = gauge("memory_swap_total_bytes", "Swap space (SwapTotal).")
SWAP_FREE = gauge("memory_swap_free_bytes", "Swap space not in use (SwapFree).")

_OWN_FIELDS = ("Cached", "Dirty")
_KIB = 1024


def parse_memory(text: str) -> dict[str, int]:
    """Maps each field to its bytes, for the fields that psutil lacks and this kernel has."""
    fields = (line.split() for line in text.splitlines())
    return {field[0][:-1]: int(field[1]) * _KIB for field in fields if field[0][:-1] in _OWN_FIELDS}


def collect_memory(roots: HostRoots) -> Iterator[Sample]:
    memory = read_by_psutil(roots.proc, "meminfo", psutil.virtual_memory)
    swap = read_by_psutil(roots.proc, "meminfo", psutil.swap_memory)
    own = parse_file(f"{roots.proc}/meminfo", parse_memory)
    sizes_bytes = {
        MEMORY_TOTAL: memory.total,
        MEMORY_FREE: memory.free,
        MEMORY_AVAILABLE: memory.available,
        BUFFERS: memory.buffers,
        CACHED: own.get("Cached"),
        SWAP_TOTAL: swap.total,
        SWAP_FREE: swap.free,
        DIRTY: own.get("Dirty"),
    }
    yield from (family(size) for family, size in sizes_bytes.items() if size is not None)


# Paging and out-of-memory kills from /proc/vmstat. Source: the kernel's mm/vmstat.c.

SWAP_IN = counter("vmstat_pswpin_total", "Pages swapped in.")
SWAP_OUT = counter("vmstat_pswpout_total", "Pages swapped out.")

FAMILIES = {
    "pswpin": SWAP_IN,
    "pswpout": SWAP_OUT,
    "pgmajfault": counter("vmstat_pgmajfault_total", "Page faults that had to read from disk."),
    "oom_kill": counter("vmstat_oom_kill_total", "Processes killed because memory ran out."),
}


def parse_vmstat(text: str) -> dict[str, int]:
    """Maps each counter to its value, for those in FAMILIES that this kernel has."""
    pairs = (line.split() for line in text.splitlines())
    return {name: int(value) for name, value in pairs if name in FAMILIES}


def collect_vmstat(roots: HostRoots) -> Iterator[Sample]:
    for name, value in parse_file(f"{roots.proc}/vmstat", parse_vmstat).items():
        yield FAMILIES[name](value)


# Memory errors that the controllers counted.
#
# Source: Documentation/ABI/testing/sysfs-devices-edac, docs.kernel.org/driver-api/edac.html

CORRECTABLE = counter("edac_correctable_errors_total", "Memory errors corrected.", "controller")
UNCORRECTABLE = counter("edac_uncorrectable_errors_total", "Memory errors that could not be corrected.", "controller")


def collect_edac(roots: HostRoots) -> Iterator[Sample]:
    root = f"{roots.sys}/devices/system/edac/mc"
    controllers = [name for name in list_directory(root) if name[2:].isdigit()]
    if not controllers:
        raise NoData("no memory controller reports errors (no EDAC driver, or memory without ECC)")
    for name in controllers:
        yield CORRECTABLE(parse_file(f"{root}/{name}/ce_count", int), name[2:])
        yield UNCORRECTABLE(parse_file(f"{root}/{name}/ue_count", int), name[2:])


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


def parse_pressure(text: str) -> dict[str, tuple[float, float]]:
    """Maps some (at least one task waited) and full (all did) to the share of the last 10 s and seconds since boot.

    Of irq the kernel has no `some`.
    """
    stalls = {}
    for kind, *pairs in map(str.split, text.splitlines()):
        fields = dict(pair.split("=") for pair in pairs)
        stalls[kind] = round(float(fields["avg10"]) / 100, 6), int(fields["total"]) / 1e6
    return stalls


def collect_pressure(roots: HostRoots) -> Iterator[Sample]:
    by_resource = {name: parse_optional_file(f"{roots.proc}/pressure/{name}", parse_pressure) for name in RESOURCES}
    if not any(by_resource.values()):
        raise NoData("the kernel has no pressure stall information, or was started with psi=0")
    for name, stalls in by_resource.items():
        if stalls and "some" in stalls:
            yield WAITING_SECONDS[name](stalls["some"][1])
            yield WAITING_RATIO[name](stalls["some"][0])
        if stalls and "full" in stalls:
            yield STALLED_SECONDS[name](stalls["full"][1])


# What all pods together use in their control groups (v2). Source: docs.kernel.org/admin-guide/cgroup-v2.html
#
# Read are the root and the slices next below it, never a pod's own group. The root has no memory files, and no
# cgroup.type. A pod has a cgroup namespace of its own, whose root has both: that is not the node's, and gives no value.

SLICES = ("", "kubepods.slice", "kubepods", "system.slice")
"""kubepods.slice with the systemd driver, kubepods with cgroupfs."""

CGROUP_CPU_SECONDS = counter("cgroup_cpu_seconds_total", "CPU seconds used by the slice.", "slice")
CGROUP_THROTTLED_SECONDS = counter(
    "cgroup_cpu_throttled_seconds_total", "Seconds that a CPU limit kept the slice from running.", "slice"
)
CGROUP_MEMORY = gauge("cgroup_memory_current_bytes", "Memory used by the slice.", "slice")
CGROUP_MEMORY_MAX = gauge("cgroup_memory_max_bytes", "Memory limit of the slice; no series without a limit.", "slice")
CGROUP_EVENTS = counter("cgroup_memory_events_total", "memory.events of the slice, by event.", "slice", "event")
CGROUP_WAITING = counter(
    "cgroup_pressure_waiting_seconds_total",
    "Seconds in which some task of the slice waited, by resource.",
    "slice",
    "resource",
)

_EVENTS = ("high", "max", "oom", "oom_kill")


def parse_flat(text: str) -> dict[str, int]:
    """Maps each key of a flat keyed file (cpu.stat, memory.events) to its number."""
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}


def parse_limit(text: str) -> int | None:
    """Returns memory.max in bytes; None for "max", which is no limit."""
    return None if text.strip() == "max" else int(text)


def collect_cgroup(roots: HostRoots) -> Iterator[Sample]:
    root = _unified_root(f"{roots.sys}/fs/cgroup")
    if os.path.exists(f"{root}/cgroup.type"):
        raise NoData(f"{root} is the root of the agent's own cgroup namespace, not the node's")
    for name in SLICES:
        if os.path.isdir(f"{root}/{name}"):
            yield from _slice(name or "/", f"{root}/{name}")
            for resource in ("cpu", "memory", "io"):
                stalls = parse_optional_file(f"{root}/{name}/{resource}.pressure", parse_pressure) or {}
                if "some" in stalls:
                    yield CGROUP_WAITING(stalls["some"][1], name or "/", resource)


def _unified_root(mount: str) -> str:
    for root in (mount, f"{mount}/unified"):
        if os.path.exists(f"{root}/cgroup.controllers"):
            return root
    raise NoData(f"no cgroup v2 hierarchy at {mount}")


def _slice(name: str, path: str) -> Iterator[Sample]:
    """Collects one slice. Values that its controller, its limits or an old kernel do not give have no series."""
    cpu = parse_optional_file(f"{path}/cpu.stat", parse_flat) or {}
    for key, family in (("usage_usec", CGROUP_CPU_SECONDS), ("throttled_usec", CGROUP_THROTTLED_SECONDS)):
        if key in cpu:
            yield family(cpu[key] / 1e6, name)
    for file, family in (("memory.current", CGROUP_MEMORY), ("memory.max", CGROUP_MEMORY_MAX)):
        size_bytes = parse_optional_file(f"{path}/{file}", parse_limit)
        if size_bytes is not None:
            yield family(size_bytes, name)
    for event, count in (parse_optional_file(f"{path}/memory.events", parse_flat) or {}).items():
        if event in _EVENTS:
            yield CGROUP_EVENTS(count, name, event)
