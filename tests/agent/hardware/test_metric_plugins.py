"""Metrics of other packages: shown under their plugin's name, reported, bounded, and unable to hurt the agent."""

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest

from agent.hardware.metric_plugins import MAX_SERIES, MetricPlugin
from agent.hardware.monitor import HardwareMonitor, hardware_metrics
from agent.hardware.reading import Failed
from leadsman.plugin import HostRoots, MetricFamily, counter, gauge
from leadsman.runtime.scrape import create_registry

USED = gauge("used_ratio", "Used.")
JOBS = counter("jobs_total", "Jobs.", "queue")


def monitored(*items: object) -> HardwareMonitor:
    """With a plugin that gives these."""
    plugin: Any = SimpleNamespace(api_version=1, collect=lambda roots: items)
    return HardwareMonitor(HostRoots(), collectors={"custom_mine": MetricPlugin("mine", plugin)}, deadline_seconds=30.0)


async def test_it_is_shown_under_the_plugin_s_name_and_a_gauge_without_labels_is_reported() -> None:
    monitor = monitored(USED(0.25), JOBS(3, "a"), JOBS(4, "b"))
    await monitor.run_round()
    text = generate_latest(create_registry(lambda: hardware_metrics(monitor.latest))).decode()
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
        ([counter("used", "Used.")(1), gauge("used_total", "Used.")(2)], "has two descriptions"),
        ([JOBS(1, str(number)) for number in range(MAX_SERIES + 1)], f"more than {MAX_SERIES} samples"),
    ],
)
async def test_what_cannot_be_shown_is_the_plugin_s_failure_with_a_reason(items: list[object], error: str) -> None:
    outcome = (await monitored(*items).run_round()).outcomes["custom_mine"]
    assert isinstance(outcome, Failed)
    assert error in outcome.error
