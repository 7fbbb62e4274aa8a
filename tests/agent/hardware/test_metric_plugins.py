"""Metrics of other packages: shown under their plugin's name, reported, bounded, and unable to hurt the agent."""

import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from agent.hardware.metric_plugins import MAX_SERIES, MetricPlugin, metric_plugins
from agent.hardware.monitor import HardwareMonitor, hardware_metrics
from agent.hardware.reading import Failed, Overdue
from leadsman.plugin import HostRoots, MetricFamily, Sample, counter, gauge
from leadsman.runtime.scrape import create_registry

USED = gauge("used_ratio", "Used.")
JOBS = counter("jobs_total", "Jobs.", "queue")


class Given:
    """A plugin that gives these."""

    api_version = 1

    def __init__(self, *items: object) -> None:
        self.items = items

    def collect(self, roots: HostRoots) -> Iterable[Sample]:
        return self.items  # type: ignore[return-value]


def monitored(plugin: object, deadline_seconds: float = 30.0) -> HardwareMonitor:
    collectors = {"custom_mine": MetricPlugin("mine", plugin)}  # type: ignore[arg-type]
    return HardwareMonitor(HostRoots(), collectors=collectors, deadline_seconds=deadline_seconds)


def page(monitor: HardwareMonitor) -> str:
    registry: CollectorRegistry = create_registry(lambda: hardware_metrics(monitor.latest))
    return generate_latest(registry).decode()


async def test_it_is_shown_under_the_plugin_s_name_and_a_gauge_without_labels_is_reported() -> None:
    monitor = monitored(Given(USED(0.25), JOBS(3, "a"), JOBS(4, "b")))
    await monitor.run_round()
    text = page(monitor)
    assert "leadsman_custom_mine_used_ratio 0.25\n" in text
    assert 'leadsman_custom_mine_jobs_total{queue="b"} 4.0\n' in text
    assert 'leadsman_collector_success{collector="custom_mine"} 1.0\n' in text
    record = monitor.record(time.monotonic())
    assert record is not None
    assert record.values == {"custom_mine_used_ratio": 0.25}


@pytest.mark.parametrize(
    ("items", "error"),
    [
        ([3.0], "it gave a float; must be a Sample"),
        ([gauge("Used", "Used.")(1)], "the name 'Used' must be [a-z]"),
        ([gauge("used ratio", "Used.")(1)], "the name 'used ratio' must be [a-z]"),
        ([gauge("used", "Used.", "no-label")(1, "x")], "the name 'no-label' must be [a-z]"),
        ([MetricFamily("used", "summary", "Used.")(1)], "used is a 'summary'; must be a gauge or counter"),  # type: ignore[arg-type]
        ([JOBS(1)], "jobs_total has 1 labels, a sample of it 0 values"),
        ([USED(math.nan)], "used_ratio is nan; leave out what is not known"),
        ([USED(math.inf)], "used_ratio is inf; leave out what is not known"),
        ([USED(1), USED(2)], "is there twice"),
        ([USED(1), gauge("used_ratio", "Another.")(2)], "has two descriptions"),
        ([JOBS(1, str(number)) for number in range(MAX_SERIES + 1)], f"more than {MAX_SERIES} samples"),
    ],
)
async def test_what_cannot_be_shown_is_the_plugin_s_failure_with_a_reason(items: list[object], error: str) -> None:
    outcome = (await monitored(Given(*items)).run_round()).outcomes["custom_mine"]
    assert isinstance(outcome, Failed)
    assert error in outcome.error


async def test_one_that_loops_is_quarantined_as_a_slow_sensor_is() -> None:
    released = []

    class Loops(Given):
        def collect(self, roots: HostRoots) -> Iterator[Sample]:
            while not released:
                time.sleep(0.01)
            yield USED(1.0)

    outcome = (await monitored(Loops(), deadline_seconds=0.05).run_round()).outcomes["custom_mine"]
    released.append(True)
    assert isinstance(outcome, Overdue)


async def test_one_that_cannot_be_loaded_fails_each_time_and_says_why(
    installed: None, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = HardwareMonitor(HostRoots(), collectors=metric_plugins(["absent", "No", "old", "nothing"]))
    outcomes = (await monitor.run_round()).outcomes
    errors = {name: outcome.error for name, outcome in outcomes.items() if isinstance(outcome, Failed)}
    assert "0 installed packages have 'absent' in the group leadsman.metrics" in errors["custom_absent"]
    assert "the name 'No' of a plugin of leadsman.metrics must be [a-z]" in errors["custom_No"]
    assert "api_version is 0; must be 1" in errors["custom_old"]
    assert "it has no method 'collect'" in errors["custom_nothing"]
    assert "metric plugin old cannot be loaded" in caplog.text


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with two plugins that cannot be used."""
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[leadsman.metrics]\nold = mine_metrics:Old\nnothing = mine_metrics:None_\n")
    (tmp_path / "mine_metrics.py").write_text("class Old:\n    api_version = 0\n\nclass None_:\n    api_version = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
