"""The collectors by name. A new source is a file beside this one and a line here."""

from agent.hardware import (
    cgroup,
    conntrack,
    cpu,
    disks,
    edac,
    filesystems,
    hwmon,
    links,
    loadavg,
    memory,
    netdev,
    pressure,
    thermal,
    throttle,
    vmstat,
)
from agent.hardware.nvidia import NvidiaCollector
from agent.hardware.rtnetlink import read_link_dump
from agent.hardware.samples import CollectFunction
from agent.hardware.sriov import SriovCollector


def default_collectors() -> dict[str, CollectFunction]:
    """All of them, in the order they run: plain /proc text first, what can hang last."""
    return {
        "cpu": cpu.collect,
        "load": loadavg.collect,
        "memory": memory.collect,
        "vmstat": vmstat.collect,
        "pressure": pressure.collect,
        "cgroup": cgroup.collect,
        "disks": disks.collect,
        "network": netdev.collect,
        "conntrack": conntrack.collect,
        "links": links.collect,
        "sriov": SriovCollector(read_link_dump),
        "throttle": throttle.collect,
        "edac": edac.collect,
        "thermal": thermal.collect,
        "hwmon": hwmon.collect,
        "filesystems": filesystems.collect,
        "nvidia": NvidiaCollector(),
    }
