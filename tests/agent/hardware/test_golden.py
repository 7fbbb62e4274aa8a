"""Each host's tree gives exactly the text of /metrics that lies beside it, and promtool finds nothing wrong in it."""

import os

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from agent.hardware.monitor import hardware_metrics
from leadsman.runtime.scrape import FamiliesCollector
from tests.agent.hardware.conftest import Unpacked, reading_of
from tests.host_trees import HOSTS


@pytest.mark.parametrize("name", ["server", "edge", "vm"])
def test_a_host_gives_its_golden_text(name: str, unpacked: Unpacked) -> None:
    reading, registry = reading_of(unpacked(name)), CollectorRegistry()
    registry.register(FamiliesCollector(lambda: hardware_metrics(reading)))
    text = generate_latest(registry).decode()
    golden = HOSTS / f"{name}.metrics"
    if os.environ.get("LEADSMAN_GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text()
