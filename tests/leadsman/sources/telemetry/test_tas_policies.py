"""Policies by list and watch: changed at once, a bad one refused by its path, its last good version kept."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from leadsman.decision.telemetry.taspolicy import PolicyKey
from leadsman.kube.access import ApiAccess
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings, TelemetrySources
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

BASE = "/apis/telemetry.intel.com/v1alpha1/namespaces"
P = PolicyKey("ns", "p")


def spec(operator: str = "GreaterThan", metric: str = "m") -> Any:
    return {
        "spec": {"strategies": {"dontschedule": {"rules": [{"metricname": metric, "operator": operator, "target": 1}]}}}
    }


@pytest.fixture
async def sources(api: FakeApiServer) -> AsyncIterator[TelemetrySources]:
    settings = TelemetrySettings(("custom-metrics", "agents"), ApiAccess(api.url), poll_interval_seconds=0.2)
    async with TelemetrySources(settings) as one, running(*(loop for _, loop in one.tasks())):
        yield one


async def test_a_bad_version_is_refused_by_its_path_and_the_last_good_one_stays(
    api: FakeApiServer, sources: TelemetrySources
) -> None:
    api.put(f"{BASE}/ns/taspolicies/p", spec())
    await until(lambda: P in sources.current.policies.used)
    api.put(f"{BASE}/ns/taspolicies/p", spec("Above"))
    await until(lambda: P in sources.current.policies.refused)
    found = sources.current.policies
    assert found.refused[P].problem.path == "spec.strategies.dontschedule.rules[0].operator"
    assert str(found.used[P].dontschedule) == "m GreaterThan 1"
    api.put(f"{BASE}/ns/taspolicies/p", spec("Equals"))
    await until(lambda: P not in sources.current.policies.refused)
    assert str(sources.current.policies.used[P].dontschedule) == "m Equals 1"
    api.delete(f"{BASE}/ns/taspolicies/p")
    await until(lambda: P not in sources.current.policies.used)


async def test_a_new_policy_s_metric_is_asked_for_at_once(api: FakeApiServer, sources: TelemetrySources) -> None:
    await until(lambda: sources.current.policies.loaded)
    api.put(f"{BASE}/ns/taspolicies/p", spec(metric="brand-new"))
    await until(lambda: "brand-new" in sources.pollers["custom-metrics"].errors, 1.0)
