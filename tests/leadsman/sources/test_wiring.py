"""What a process decides on, wired as it was asked for."""

import pytest

from leadsman.kube.access import ApiAccess
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.sources.wiring import FollowedSources, SourceSettings
from tests.memory_store import MemoryStore

API = ApiAccess("http://127.0.0.1:1")


def tasks(gathering):
    """Their names; none is begun."""
    loops = dict(gathering.tasks())
    for loop in loops.values():
        loop.close()
    return loops.keys()


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        (SourceSettings(), set()),
        (SourceSettings(api=API), {"watch workload pods", "watch labels of nodes"}),
        (SourceSettings(delays=DelaySettings(goldpinger_url="http://gp")), {"read delays from goldpinger"}),
        (SourceSettings(telemetry=TelemetrySettings(("agents",), API)), {"watch telemetry policies"}),
    ],
    ids=["nothing", "api", "goldpinger", "telemetry"],
)
async def test_each_source_that_is_asked_for_is_followed_and_no_other(asked, more) -> None:
    always = {"watch the state", "reload the policy file", "fit estimates"}
    assert tasks(FollowedSources(MemoryStore(), asked)) == always | more


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        (SourceSettings(), set()),
        (SourceSettings(api=API), {"pods", "replicasets", "jobs", "nodes"}),
        (SourceSettings(telemetry=TelemetrySettings(("agents",), API)), {"taspolicies"}),
        (
            SourceSettings(
                api=API, delays=DelaySettings(goldpinger_url="http://gp"), self_healing_namespace="leadsman"
            ),
            {"pods", "replicasets", "jobs", "nodes", "addresses", "configmaps", "placeholders"},
        ),
    ],
    ids=["nothing", "api", "telemetry", "all of the API server"],
)
async def test_each_source_that_is_followed_is_one_to_wait_for(asked, more) -> None:
    assert FollowedSources(MemoryStore(), asked).listed_sources.keys() == {"the state in etcd"} | more
