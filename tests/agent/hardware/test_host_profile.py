"""The host-metrics profile on real namespaces: a pod with the host's /proc and /sys mounted shows the host's values.

`unshare` makes the host (a network with one device, processes, /proc and /sys of its own) and within it the pod, which
has its own of each and sees the host's below a folder, as daemonset/components/host-metrics mounts them.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leadsman.testbed import virtual_network

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        virtual_network.why_unavailable() is not None or shutil.which("unshare") is None,
        reason=f"no namespaces here: {virtual_network.why_unavailable() or 'apt-get install util-linux'}",
    ),
]

UNSHARE = "unshare --net --pid --mount --fork --mount-proc sh -euc"

HOST = f"""
mount -t sysfs sysfs /sys
ip tuntap add host0 mode tun; ip link set host0 up; ip addr add 192.0.2.1/24 dev host0
mkdir "$0/proc" "$0/sys"; mount --rbind /proc "$0/proc"; mount --rbind /sys "$0/sys"
{UNSHARE} 'mount -t sysfs sysfs /sys; exec "$@"' pod "$@"
"""

POD = """
import json, os, sys
from leadsman.plugin import HostRoots
from agent.hardware.monitor import default_collectors
from agent.hardware.reading import Measured, run_collector
roots = HostRoots(sys.argv[1] + "/proc", sys.argv[1] + "/sys")
outcomes = {name: run_collector(collect, roots, lambda: 0.0) for name, collect in default_collectors().items()}
samples = [
    (sample.family.name, sample.labels, sample.value)
    for outcome in outcomes.values() if isinstance(outcome, Measured) for sample in outcome.samples
]
print(json.dumps({"samples": samples, "pid": os.getpid()}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory):
    """What the pod's collectors give, with what its own /sys shows there."""
    tmp_path = tmp_path_factory.mktemp("host")
    command = [*UNSHARE.split(), HOST, str(tmp_path), sys.executable, "-c", POD, str(tmp_path)]
    pod = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert pod.returncode == 0, pod.stderr
    return json.loads(pod.stdout)


def values(seen, family):
    return {tuple(labels): value for name, labels, value in seen["samples"] if name == family}


def test_network_counters_are_of_the_hosts_devices_not_of_the_pods(seen) -> None:
    assert values(seen, "network_transmit_bytes_total").keys() == {("host0",)}
    assert seen["pid"] == 1


def test_cpu_and_memory_are_the_hosts_by_psutil(seen) -> None:
    assert values(seen, "cpu_online")[()] == Path("/proc/stat").read_text().count("\ncpu")
    assert values(seen, "cpu_seconds_total")[("idle",)] > 0
    assert values(seen, "memory_total_bytes")[()] == 1024 * int(Path("/proc/meminfo").read_text().split()[1])
