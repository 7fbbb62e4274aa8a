"""Refused pods are woken when the cause goes, whichever source it came from, and told of a policy that is not there."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from controller.requeuer import Requeuer
from leadsman.kube.client import ApiClient
from leadsman.kube.names import RETRIED_AT_ANNOTATION
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.wiring import FollowedSources, SourceSettings
from leadsman.state import keys
from leadsman.state.records import Heartbeat, Latency, PeerLatency, encode_record
from leadsman.state.store import Put
from leadsman.testbed.fake_api_server import FakeApiServer
from tests.controller.followed import Told, listed, node_cache, tools, waiting_pod
from tests.memory_store import MemoryStore

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.controller.conftest import Run

PODS = "/api/v1/namespaces/ns/pods"
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def waiting(api: FakeApiServer, **labels: str) -> None:
    pod = {"metadata": {"labels": labels}, "spec": {}, "status": {"phase": "Pending", "conditions": [REFUSED]}}
    api.put(f"{PODS}/waiting", pod)


def db(api: FakeApiServer, node: str = "") -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": True}
    spec = {"nodeName": node} if node else {}
    api.put(f"{PODS}/db-0", {"metadata": {"ownerReferences": [owner]}, "spec": spec, "status": {"phase": "Pending"}})


def touched(api: FakeApiServer) -> list[str]:
    patches = [asked for asked in api.requests if asked.verb == "patch" and "annotations" in asked.body["metadata"]]
    return [
        one.path.rpartition("/")[2] for one in patches if RETRIED_AT_ANNOTATION in one.body["metadata"]["annotations"]
    ]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """n1 to n2 40 ms."""
    matrix, metadata = tmp_path / "matrix.txt", tmp_path / "nodes.json"
    matrix.write_text("0 40\n40 0\n")
    metadata.write_text('{"n1": 0, "n2": 1}')
    return matrix, metadata


@pytest.fixture
def nodes(api: FakeApiServer) -> None:
    for name in ("n1", "n2"):
        api.put(f"/api/v1/nodes/{name}", {"metadata": {}})


async def rounds(port: int) -> None:
    """Waiting pods were looked at."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while await looked_seconds(session, port) == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def looked_seconds(session: aiohttp.ClientSession, port: int) -> float:
    async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    taken = 'leadsman_controller_plan_seconds{keeper="requeue pods"} '
    return next((float(line.removeprefix(taken)) for line in lines if line.startswith(taken)), 0.0)


async def test_a_pod_bound_to_a_workload_is_woken_when_that_is_placed(
    api: FakeApiServer, running: "Run", until: "Until", files: tuple[Path, Path], nodes: None
) -> None:
    waiting(api, delay_db="5")
    db(api)
    async with running(delays=DelaySettings(matrix=files[0], metadata=files[1])) as port:
        await rounds(port)
        assert touched(api) == [], "db has no place yet"
        db(api, "n2")
        await until(lambda: touched(api) == ["n2"])


class World:
    """Agents' reports on a line of nodes 2 ms apart, n00 behind a link of its own; n00 and n05 never measured each
    other."""

    def __init__(self, nodes=24):
        self.store, self._seq = MemoryStore(), 0
        self._names = [f"n{number:02}" for number in range(nodes)]

    async def report(self, link_ms):
        self._seq += 1
        for at, node in enumerate(self._names):
            to = {other: 2.0 * abs(at - there) for there, other in enumerate(self._names) if other != node}
            known = {other: ms for other, ms in to.items() if {node, other} != {"n00", "n05"}}
            known = {other: ms + link_ms * ("n00" in (node, other)) for other, ms in known.items()}
            windows = {other: PeerLatency(30, 30, p50_ms=ms, p95_ms=ms, min_ms=ms) for other, ms in known.items()}
            records = (Latency(windows), Heartbeat(1, self._seq, 5.0))
            await self.store.write([Put(keys.record_key(node, type(one)), encode_record(one)) for one in records])

    def seen(self, snapshot):
        """The last report of the last node is in it."""
        state = snapshot.nodes.get(self._names[-1])
        return state is not None and state.heartbeat.seq == self._seq

    @asynccontextmanager
    async def followed(self):
        async with FollowedSources(self.store, SourceSettings()) as gathering:
            task = asyncio.create_task(gathering.state.run())
            try:
                yield gathering
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_bound_by_an_estimate_is_woken_when_that_comes_within_the_bound(
    api: FakeApiServer, client: ApiClient, until: "Until"
) -> None:
    world = World()
    pod = waiting_pod(labels={"delay_n00": "30"})
    api.put("/api/v1/nodes/n05", {"metadata": {}})
    async with world.followed() as gathering:
        sources, estimator = gathering.input_sources, gathering.delays.estimator

        pending = listed({("ns", "p"): pod})
        waker = Requeuer(tools(client, Told(), sources.current_inputs), pending, node_cache("n05"), TokenBucket(1e9, 1))

        async def settled(link_ms):
            await world.report(link_ms)
            await until(lambda: world.seen(gathering.state.current))
            await estimator.run_once()
            await waker.turn()

        await settled(60.0)
        await settled(60.0)
        assert touched(api) == [], "about 70 ms"
        await settled(1.0)
        assert touched(api) == ["n05"], "about 11 ms"
