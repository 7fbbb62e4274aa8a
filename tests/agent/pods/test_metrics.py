"""Incidents by cause and type, and healthy time, as Prometheus reads them: bounded, and rendered from memory."""

import time
from random import Random
from typing import TYPE_CHECKING

import pytest
from prometheus_client import generate_latest

from agent.pods.incident_ledger import CountedTotals, IncidentLedger, LedgerLimits
from agent.pods.monitor import PodMonitor, PodSettings, pod_metrics
from agent.pods.reward_persistence import RewardPersistence
from leadsman.kube.access import ApiAccess
from leadsman.runtime.scrape import create_registry
from tests.memory_store import MemoryStore

if TYPE_CHECKING:
    from tests.agent.pods.conftest import Given


@pytest.fixture
def scraped(given: "type[Given]"):
    """`scraped(most_types, pods)`: the page after these pods were seen."""

    def page(most_types, pods):
        settings = PodSettings(ApiAccess("http://127.0.0.1:1"), LedgerLimits(most_types=most_types))
        persistence = RewardPersistence(MemoryStore(), "edge-1", lambda: None, Random(1))
        monitor = PodMonitor("edge-1", settings, persistence, 1.0, lambda: 1.0, time.monotonic, time.time)
        monitor.ledger = IncidentLedger({}, CountedTotals(), False, time.monotonic, time.time, settings.limits)
        for pod in pods:
            monitor.ledger.on_pod_updated(pod)
        monitor.ledger.credit_health()
        return generate_latest(create_registry(lambda: pod_metrics(monitor, persistence))).decode()

    return page


def crashing(given, number):
    labels = {"podtype": f"type-{number}"}
    return given.pod("Running", given.restarted(number + 1), labels=labels, uid=f"uid-{number}")


def test_series_are_bounded_by_the_types_that_are_kept(scraped, given: "type[Given]") -> None:
    page = scraped(4, [crashing(given, number) for number in range(50)])
    assert page.count("leadsman_incidents_total{") == 4
    assert page.count("leadsman_pod_healthy_seconds_total{") <= 4
