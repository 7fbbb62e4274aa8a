"""Refused pods are woken when the cause goes, whichever source it came from, and told of a policy that is not there."""

import asyncio
from pathlib import Path

import aiohttp

from controller.pods import Requeuer
from leadsman.kube.client import ApiClient
from leadsman.kube.names import RETRIED_AT_ANNOTATION
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.delay.delay_sources import DelaySettings
from tests.controller.conftest import started
from tests.controller.followed import Told, listed, node_cache, tools, waiting_pod
from tests.leadsman.planning.measured import measured
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

PODS = "/api/v1/namespaces/ns/pods"


def db(api: FakeApiServer, node: str = "") -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": True}
    spec = {"nodeName": node} if node else {}
    api.put(f"{PODS}/db-0", {"metadata": {"ownerReferences": [owner]}, "spec": spec, "status": {"phase": "Pending"}})


def touched(api: FakeApiServer) -> list[str]:
    patches = [asked for asked in api.requests if asked.verb == "patch" and "annotations" in asked.body["metadata"]]
    return [
        one.path.rpartition("/")[2] for one in patches if RETRIED_AT_ANNOTATION in one.body["metadata"]["annotations"]
    ]


async def test_a_pod_bound_to_a_workload_is_woken_when_that_is_placed(api: FakeApiServer, tmp_path: Path) -> None:
    matrix, metadata = tmp_path / "matrix.txt", tmp_path / "nodes.json"
    matrix.write_text("0 40\n40 0\n")
    metadata.write_text('{"n1": 0, "n2": 1}')
    for name in ("n1", "n2"):
        api.put(f"/api/v1/nodes/{name}", {"metadata": {}})
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": "Pending", "conditions": [refused]}
    api.put(f"{PODS}/waiting", {"metadata": {"labels": {"delay_db": "5"}}, "spec": {}, "status": status})
    db(api)
    async with started(api, delays=DelaySettings(matrix=matrix, metadata=metadata)) as port:
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while await looked_seconds(session, port) == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert touched(api) == [], "db has no place yet"
        db(api, "n2")
        await until(lambda: touched(api) == ["n2"])


async def looked_seconds(session: aiohttp.ClientSession, port: int) -> float:
    """What looking at waiting pods took."""
    async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    taken = 'leadsman_controller_plan_seconds{keeper="requeue pods"} '
    return next((float(line.removeprefix(taken)) for line in lines if line.startswith(taken)), 0.0)


# The requeue plan is executed: a node's annotation is touched, at a limited rate, and a failed touch is made later.

NODES = ("a", "b", "c")


async def test_touches_are_rate_limited(client: ApiClient, api: FakeApiServer) -> None:
    for node in NODES:
        api.put(f"/api/v1/nodes/{node}", {"metadata": {}})
    found, pods = measured(100.0, {"a": {"b": 80.0, "c": 80.0}}), listed({1: waiting_pod(labels={"delay_a": "25"})})
    one = Requeuer(tools(client, Told(), lambda: found), pods, node_cache(*NODES), TokenBucket(1e-9, 1))
    await one.turn()
    found = measured(100.0, {"a": {"b": 5.0, "c": 80.0}})
    await one.turn()
    assert touched(api) == ["a"], "the second waits for its turn"
    one._rate = TokenBucket(1e9, 1)
    await one.turn()
    assert touched(api) == ["a", "b"]
