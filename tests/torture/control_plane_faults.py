"""Rows that break the API server, extenders and controllers, or load nodes past a policy's target."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

from tests.testbed.scripted_api_server import FakeApiServer
from tests.torture.cluster import CALM_LOAD, HOT_LOAD, Cluster
from tests.torture.etcd_faults import kill_etcd, start_etcd
from tests.torture.log import LeaseWritten
from tests.torture.rows import Stage, row
from tests.torture.shape import CONTROLLERS, ETCD, EXTENDER_A, EXTENDER_B, NODES


@row(15, "api")
async def api_server_silent(stage: Stage) -> AsyncIterator[None]:
    """The API server accepts connections and answers nothing for 15 s."""
    stage.cluster.api.call(lambda server: server.silence())
    yield
    stage.cluster.api.call(lambda server: server.heal())


@row(6, "api")
async def api_server_throttles(stage: Stage) -> AsyncIterator[None]:
    """The API server ends all watches and answers 429 with Retry-After."""
    stage.cluster.api.call(partial(_refuse_all, status=429))
    yield


@row(6, "api")
async def api_server_fails(stage: Stage) -> AsyncIterator[None]:
    """The API server ends all watches and answers 500."""
    stage.cluster.api.call(partial(_refuse_all, status=500))
    yield


def _refuse_all(server: FakeApiServer, status: int) -> None:
    for verb in ("list", "watch", "get", "update", "patch"):
        server.fail(verb, status, times=10, retry_after_seconds=1 if status == 429 else None)
    server.end_watches()


@row(3, "api")
async def api_server_forgot(stage: Stage) -> AsyncIterator[None]:
    """The API server compacts, and answers 410 to every watch."""
    stage.cluster.api.call(lambda server: server.compact())
    stage.cluster.api.call(lambda server: server.fail_watches(410))
    yield


@row(2, EXTENDER_A)
async def extender_killed(stage: Stage) -> AsyncIterator[None]:
    """One extender is killed under load, and starts after 2 s."""
    stage.cluster.kill(EXTENDER_A)
    yield
    await stage.cluster.restart(EXTENDER_A)


@row(8, EXTENDER_A)
async def extender_frozen(stage: Stage) -> AsyncIterator[None]:
    """One extender is frozen for 8 s under load."""
    stage.cluster.freeze(EXTENDER_A)
    yield
    await stage.cluster.thaw(EXTENDER_A)


@row(0, EXTENDER_B)
async def extender_restarted(stage: Stage) -> AsyncIterator[None]:
    """One extender is asked to stop, and starts again."""
    stage.cluster.terminate(EXTENDER_B)
    yield
    await stage.cluster.until(lambda: stage.cluster.processes[EXTENDER_B].child.poll() is not None, "it ended")
    await stage.cluster.restart(EXTENDER_B)


def _leader_controller(cluster: Cluster) -> str:
    writes = [entry for entry in cluster.log if isinstance(entry, LeaseWritten) and entry.holder]
    return writes[-1].writer if writes else CONTROLLERS[0]


@row(0, *CONTROLLERS)
async def leading_controller_killed(stage: Stage) -> AsyncIterator[None]:
    """The controller that leads is killed; the other must take the Lease over."""
    leader = _leader_controller(stage.cluster)
    stage.cluster.kill(leader)
    await stage.measure("another leader", 20, lambda: _leader_controller(stage.cluster) != leader)
    yield
    await stage.cluster.restart(leader)


@row(1, *CONTROLLERS)
async def leading_controller_frozen(stage: Stage) -> AsyncIterator[None]:
    """The controller that leads is frozen with marks to write, until the other leads, and wakes."""
    leader = _leader_controller(stage.cluster)
    _heat(stage.cluster, ("edge-5", "edge-6"), HOT_LOAD)
    stage.cluster.freeze(leader)
    await stage.measure("another leader", 20, lambda: _leader_controller(stage.cluster) != leader)
    yield
    await stage.cluster.thaw(leader)
    _heat(stage.cluster, ("edge-5", "edge-6"), CALM_LOAD)


@row(40, "load")
async def flapping_load(stage: Stage) -> AsyncIterator[None]:
    """The load of five nodes goes up and down past a policy's target every 6 s."""
    flapping = asyncio.create_task(_flap(stage.cluster, ("edge-1", "edge-2", "edge-3", "edge-4", "edge-5")))
    yield
    flapping.cancel()
    _heat(stage.cluster, tuple(NODES), CALM_LOAD)


async def _flap(cluster: Cluster, nodes: Sequence[str]) -> None:
    while True:
        for load in (HOT_LOAD, CALM_LOAD):
            _heat(cluster, nodes, load)
            await asyncio.sleep(6)


def _heat(cluster: Cluster, nodes: Sequence[str], load: float) -> None:
    for node in nodes:
        cluster.set_load(node, load)


@row(10, ETCD, "api")
async def everything_away(stage: Stage) -> AsyncIterator[None]:
    """etcd is killed and the API server silent: /metrics, health and neutral answers go on."""
    kill_etcd(stage.cluster)
    stage.cluster.api.call(lambda server: server.silence())
    yield
    stage.cluster.api.call(lambda server: server.heal())
    await start_etcd(stage.cluster)
