"""Each host's tree gives exactly the text of /metrics that lies beside it, and promtool finds nothing wrong in it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest

from agent.hardware.monitor import hardware_metrics
from agent.hardware.reading import HardwareReading
from leadsman.plugin import HostRoots

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import ReadingOf, Unpacked

NAMES = ["server", "edge", "vm"]


class Latest:
    """What the endpoint registers: a collector over one reading."""

    def __init__(self, reading: HardwareReading) -> None:
        self.reading = reading

    def collect(self) -> Iterator[Metric]:
        return hardware_metrics(self.reading)


def rendered(reading: HardwareReading) -> str:
    registry = CollectorRegistry()
    registry.register(Latest(reading))
    return generate_latest(registry).decode()


@pytest.mark.parametrize("name", NAMES)
def test_a_host_gives_its_golden_text(name, unpacked: "Unpacked", reading_of: "ReadingOf", hosts: Path) -> None:
    text = rendered(reading_of(unpacked(name)))
    golden = hosts / f"{name}.metrics"
    if os.environ.get("LEADSMAN_GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_promtool_finds_nothing_wrong(name, unpacked: "Unpacked", reading_of: "ReadingOf") -> None:
    if not shutil.which("promtool"):
        pytest.skip("no promtool: apt-get install prometheus")
    text = rendered(reading_of(unpacked(name)))
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_no_series_counts_the_pods_or_the_cores(server: HostRoots, reading_of: "ReadingOf") -> None:
    text = rendered(reading_of(server))
    for left_out in ("veth", "cali", "cni0", "loop", "rbd", "dm-0", "nvme0n1p2", "kubelet", "cpu=", "Core 0"):
        assert left_out not in text
