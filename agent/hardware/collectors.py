"""The collectors by name. A new source is a file beside this one and a line here."""

from agent.hardware import cgroup, cpu, disks, hwmon, memory, network
from agent.hardware.nvidia import NvidiaCollector
from agent.hardware.rtnetlink import read_link_dump
from agent.hardware.samples import CollectFunction
from agent.hardware.sriov import SriovCollector

HWMON = "hwmon"


def default_collectors() -> dict[str, CollectFunction]:
    """All of them, in the order they run: plain /proc text first, what can hang last."""
    return {
        "cpu": cpu.collect_cpu,
        "load": cpu.collect_load,
        "memory": memory.collect_memory,
        "vmstat": memory.collect_vmstat,
        "pressure": cgroup.collect_pressure,
        "cgroup": cgroup.collect_cgroup,
        "disks": disks.collect_disks,
        "network": network.collect_network,
        "conntrack": network.collect_conntrack,
        "links": network.collect_links,
        "sriov": SriovCollector(read_link_dump),
        "throttle": cpu.collect_throttling,
        "edac": memory.collect_edac,
        "thermal": hwmon.collect_thermal,
        HWMON: hwmon.collect_hwmon,
        "filesystems": disks.collect_filesystems,
        "nvidia": NvidiaCollector(),
    }
