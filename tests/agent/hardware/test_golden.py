"""Each host's tree gives exactly the text of /metrics that lies beside it, and promtool finds nothing wrong in it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest

from agent.hardware.monitor import hardware_metrics
from agent.hardware.reading import HardwareReading
from leadsman.plugin import HostRoots
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
def test_a_host_gives_its_golden_text(name, unpacked: Unpacked, reading_of: ReadingOf, hosts: Path) -> None:
    text = rendered(reading_of(unpacked(name)))
    golden = hosts / f"{name}.metrics"
    if os.environ.get("LEADSMAN_GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text()


def test_a_scrape_reads_no_file(server: HostRoots, reading_of: ReadingOf, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = reading_of(server)
    monkeypatch.setattr("os.open", None)
    monkeypatch.setattr("os.listdir", None)
    assert len(list(hardware_metrics(reading))) > 40
