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


GOLDPINGER = DelaySettings(goldpinger_url="http://gp")
ON_API, WORKLOADS = {"watch workload pods", "watch nodes"}, {"pods", "replicasets", "jobs", "nodes"}


@pytest.mark.parametrize(
    ("asked", "loops", "waited_for"),
    [
        (SourceSettings(), set(), set()),
        (SourceSettings(api=API), ON_API, WORKLOADS),
        (SourceSettings(delays=GOLDPINGER), {"read delays from goldpinger"}, set()),
        (SourceSettings(telemetry=TelemetrySettings(("agents",), API)), {"watch telemetry policies"}, {"taspolicies"}),
        (
            SourceSettings(api=API, delays=GOLDPINGER, self_healing_namespace="leadsman"),
            {
                *ON_API,
                *("read delays from goldpinger", "watch node addresses", "watch self-healing", "watch backups"),
            },
            {*WORKLOADS, "addresses", "configmaps", "placeholders"},
        ),
    ],
    ids=["nothing", "api", "goldpinger", "telemetry", "all of the API server"],
)
async def test_each_source_that_is_asked_for_is_followed_and_no_other(asked, loops, waited_for) -> None:
    always = {"watch the state", "reload the policy file", "fit estimates"}
    assert tasks(FollowedSources(MemoryStore(), asked)) == always | loops
    assert FollowedSources(MemoryStore(), asked).listed_sources.keys() == {"the state in etcd"} | waited_for
