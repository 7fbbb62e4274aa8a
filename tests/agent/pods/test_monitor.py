"""The node's pods on a scripted API server: only this node's, each incident once, events only of the troubled."""

import time
from collections.abc import AsyncIterator
from random import Random

import pytest

from agent.node_ownership import claim_node
from agent.pods.incident_ledger import LedgerLimits
from agent.pods.monitor import PodMonitor, PodSettings
from agent.pods.reward_persistence import RewardPersistence
from leadsman.kube.access import ApiAccess
from leadsman.state.records import Identity
from tests.agent.pods import given
from tests.memory_store import MemoryStore
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until


def put(api: FakeApiServer, restarts=0, exit_code=1, name="here", **metadata):
    made = given.body("Running", given.restarted(restarts, exit_code) if restarts else given.running())
    api.put(f"/api/v1/namespaces/d/pods/{name}", made | {"metadata": {"labels": {"app": "shop"}} | metadata})


@pytest.fixture
async def monitor(api: FakeApiServer) -> AsyncIterator[PodMonitor]:
    """Of a node on which one pod runs."""
    put(api)
    store = MemoryStore()
    held = await claim_node(store, "edge-1", Identity("a", 0, "10.0.0.1"), 600)
    settings = PodSettings(ApiAccess(api.url), LedgerLimits(100.0), 0.02, 0)
    persistence = RewardPersistence(store, "edge-1", lambda: held, Random(1))
    one = PodMonitor("edge-1", settings, persistence, 0.02, lambda: 0.02, time.monotonic, time.time)
    async with running(one.run()):
        await until(lambda: one.pods.loaded.is_set())
        yield one
    await one.client.close()


def incidents(monitor):
    rewards = monitor.ledger.rewards
    return rewards["shop"].incidents if "shop" in rewards else {}


def lookups(api: FakeApiServer):
    return [asked for asked in api.requests if asked.path.endswith("/events")]


async def test_a_closed_watch_a_relist_and_a_thousand_patches_add_nothing(api: FakeApiServer, monitor) -> None:
    put(api, restarts=1)
    await until(lambda: incidents(monitor) == {"crash": 1})
    for number in range(1000):
        put(api, restarts=1, annotations={"n": str(number)})
    api.compact()
    api.fail_watches(410)
    await until(lambda: monitor.pods.relists == 2)
    assert incidents(monitor) == {"crash": 1}


async def test_events_are_asked_of_the_pod_in_trouble_and_of_no_other(api: FakeApiServer, monitor) -> None:
    for number in range(20):
        put(api, name=f"fine-{number}")
    put(api, restarts=1, exit_code=137)
    uid = next(p.metadata.uid for p in monitor.pods.current.values() if p.metadata.name == "here")
    await until(lambda: incidents(monitor))
    assert [(one.path, one.query["fieldSelector"]) for one in lookups(api)] == [
        ("/api/v1/namespaces/d/events", f"involvedObject.uid={uid},type=Warning")
    ]


async def test_events_that_nobody_may_read_leave_the_cause_coarse(api: FakeApiServer, monitor) -> None:
    monitor.event_lookup._pause_seconds = 0.0
    api.fail("list", 403)
    put(api, restarts=1, exit_code=137)
    await until(lambda: incidents(monitor))
    assert incidents(monitor) == {"crash": 1}
    assert len(lookups(api)) == 1, "a role that is missing is missing the next time too"


async def test_health_is_not_credited_while_the_api_server_is_away_and_is_when_it_went_on(
    api: FakeApiServer, monitor
) -> None:
    await until(lambda: api.watches and monitor.ledger.healthy_seconds["shop"] > 0.1)
    api.fail("watch", 503, times=10_000)
    api.fail_watches(503)
    await until(lambda: not monitor.is_current)
    before = monitor.ledger.healthy_seconds["shop"]
    rounds = monitor.rounds
    await until(lambda: monitor.rounds > rounds + 5)
    assert monitor.ledger.healthy_seconds["shop"] == before
    api.heal()
    await until(lambda: monitor.ledger.healthy_seconds["shop"] > before + 0.1)
