"""The node's pods on a scripted API server: only this node's, each incident once, events only of the troubled."""

import asyncio
import time
from random import Random

import pytest

from agent.node_ownership import claim_node
from agent.pods.incident_ledger import LedgerLimits
from agent.pods.monitor import PodMonitor, PodSettings
from agent.pods.reward_persistence import RewardPersistence
from leadsman.kube.access import ApiAccess
from leadsman.state.records import Identity
from tests.memory_store import MemoryStore
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until


def body(restarts=0, exit_code=1, node="edge-1", phase="Running", **more):
    state = {"running": {"startedAt": "2026-03-01T12:00:00Z"}} if phase == "Running" else {"waiting": {"reason": "X"}}
    last = {"terminated": {"exitCode": exit_code, "reason": "Error"}} if restarts else {}
    container = {
        "name": "app",
        "restartCount": restarts,
        "ready": phase == "Running",
        "state": state,
        "lastState": last,
    }
    return {
        "metadata": {"labels": {"app": "shop"}} | more,
        "spec": {"nodeName": node, "containers": [{"name": "app"}]},
        "status": {"phase": phase, "containerStatuses": [container]},
    }


class World:
    """A node with its API server and store; `agent()` is a new process on it."""

    def __init__(self, api: FakeApiServer) -> None:
        self.api, self.store, self.running = api, MemoryStore(), []

    async def agent(self, stuck_seconds: float = 100.0, account_seconds: float = 0.02) -> PodMonitor:
        held = await claim_node(self.store, "edge-1", Identity("a", 0, "10.0.0.1"), 600)
        settings = PodSettings(ApiAccess(self.api.url), LedgerLimits(stuck_seconds), account_seconds, 0)
        persistence = RewardPersistence(self.store, "edge-1", lambda: held, Random(1))
        monitor = PodMonitor("edge-1", settings, persistence, 0.02, lambda: 0.02, time.monotonic, time.time)
        self.running.append((monitor, asyncio.create_task(monitor.run())))
        await until(lambda: monitor.pods.loaded.is_set())
        return monitor

    async def kill(self) -> None:
        """As kill -9: nothing more is written."""
        for monitor, task in self.running:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await monitor.client.close()
        self.running.clear()

    def put(self, name: str, pod: dict) -> None:
        self.api.put(f"/api/v1/namespaces/d/pods/{name}", pod)


def incidents(monitor):
    rewards = monitor.ledger.rewards
    return rewards["shop"].incidents if "shop" in rewards else {}


def lookups(world):
    return sum(asked.path.endswith("/events") for asked in world.api.requests)


@pytest.fixture
async def world():
    async with FakeApiServer() as api:
        one = World(api)
        yield one
        await one.kill()


async def test_a_closed_watch_a_relist_and_a_thousand_patches_add_nothing(world) -> None:
    world.put("here", body())
    monitor = await world.agent()
    world.put("here", body(restarts=1))
    await until(lambda: incidents(monitor) == {"crash": 1})
    for number in range(1000):
        world.put("here", body(restarts=1, annotations={"n": str(number)}))
    world.api.compact()
    world.api.fail_watches(410)
    await until(lambda: monitor.pods.relists == 2)
    assert incidents(monitor) == {"crash": 1}


async def test_a_killed_agent_s_successor_replays_nothing_and_misses_nothing(world) -> None:
    world.put("here", body())
    first = await world.agent()
    world.put("here", body(restarts=2))
    await until(lambda: incidents(first) == {"crash": 2})
    await until(lambda: first._persistence.writes and not first.ledger.changed_types)
    await world.kill()
    world.put("here", body(restarts=3))
    second = await world.agent()
    await until(lambda: incidents(second) == {"crash": 3})


async def test_events_are_asked_of_the_pod_in_trouble_and_of_no_other(world) -> None:
    for number in range(20):
        world.put(f"fine-{number}", body())
    world.put("killed", body())
    monitor = await world.agent()
    world.put("killed", body(restarts=1, exit_code=137))
    uid = next(p.metadata.uid for p in monitor.pods.current.values() if p.metadata.name == "killed")
    await until(lambda: incidents(monitor))
    asked = [one for one in world.api.requests if one.path.endswith("/events")]
    assert [(one.path, one.query["fieldSelector"]) for one in asked] == [
        ("/api/v1/namespaces/d/events", f"involvedObject.uid={uid},type=Warning")
    ]


async def test_events_that_nobody_may_read_leave_the_cause_coarse(world) -> None:
    world.put("here", body())
    monitor = await world.agent()
    monitor.event_lookup._pause_seconds = 0.0
    world.api.fail("list", 403)
    world.put("here", body(restarts=1, exit_code=137))
    await until(lambda: incidents(monitor))
    assert incidents(monitor) == {"crash": 1}
    assert lookups(world) == 1, "a role that is missing is missing the next time too"


async def test_health_is_not_credited_while_the_api_server_is_away_and_is_when_it_went_on(world) -> None:
    world.put("here", body())
    monitor = await world.agent()
    await until(lambda: monitor.ledger.healthy_seconds["shop"] > 0.1)
    monitor.pods.problem.report("scripted")
    before = monitor.ledger.healthy_seconds["shop"]
    rounds = monitor.rounds
    await until(lambda: monitor.rounds > rounds + 5)
    assert monitor.ledger.healthy_seconds["shop"] == before
    monitor.pods.problem.clear()
    await until(lambda: monitor.ledger.healthy_seconds["shop"] > before + 0.1)
