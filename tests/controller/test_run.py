"""The controller's process, whole, against a fake API server: its Lease, its rounds, its pages and its leave."""

import asyncio
from typing import Any

import aiohttp
import pytest

from controller.run import ControllerParts
from controller.settings import ControllerSettings
from leadsman.kube.access import ApiAccess
from leadsman.kube.errors import NotLeader
from leadsman.kube.names import OWNERSHIP_ANNOTATION
from leadsman.kube.resources import LEASES, NODES
from leadsman.sources.telemetry.telemetry_sources import TASPOLICY_RESOURCE, TelemetrySettings
from leadsman.state.etcd_http import EtcdAccess
from leadsman.testbed.api_objects import parse_path
from tests.controller.conftest import started
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

LEASE = LEASES.path("leadsman", "leadsman-controller")
MARKED = {"labels": {"hot": "violating", "other": "x"}, "annotations": {OWNERSHIP_ANNOTATION: '{"hot":"ns/hot"}'}}
BAD = {"spec": {"strategies": {"deschedule": {"rules": [{"metricname": "a b", "operator": "Equals", "target": 1}]}}}}
GOOD = {"spec": {"strategies": {"deschedule": {"rules": [{"metricname": "m", "operator": "Equals", "target": 1}]}}}}


def of(api: FakeApiServer, path: str, *steps: str) -> Any:
    found: Any = api.objects.get(parse_path(path))
    for step in steps:
        found = (found or {}).get(step)
    return found


async def test_labels_of_a_policy_that_is_gone_go_and_others_stay(api: FakeApiServer) -> None:
    """Nodes are watched once: 5,000 kubelets update them all the time."""
    api.put(NODES.path("", "n1"), {"metadata": MARKED})
    async with started(api):
        await until(lambda: of(api, NODES.path("", "n1"), "metadata", "labels") == {"other": "x"})
        assert of(api, LEASE, "spec", "holderIdentity") == "one"
        assert sum(asked.verb == "watch" and asked.path == NODES.path() for asked in api.requests) == 1
    assert of(api, LEASE, "spec", "holderIdentity") == "", "given up at the end"


async def test_a_dry_run_shows_the_plan_and_writes_nothing(api: FakeApiServer) -> None:
    api.put(NODES.path("", "n1"), {"metadata": MARKED})
    plan: dict[str, Any] = {}
    async with started(api, dry_run=True) as port, aiohttp.ClientSession() as session, asyncio.timeout(60):
        while not plan.get("actions"):
            async with session.get(f"http://127.0.0.1:{port}/plan") as answer:
                plan = await answer.json()
    assert [(action["node"], action["label"], action["value"]) for action in plan["actions"]] == [("n1", "hot", None)]
    assert set(api.verbs()) <= {"list", "watch"}


async def test_a_dry_run_cannot_write_even_where_a_keeper_tried(api: FakeApiServer) -> None:
    telemetry = TelemetrySettings(("agents",), ApiAccess(api.url))
    parts = ControllerParts(ControllerSettings(EtcdAccess(("http://127.0.0.1:1",)), telemetry, "one", dry_run=True))
    async with parts.client, parts.health_client, parts.lease_client:
        for client in (parts.client, parts.health_client):
            with pytest.raises(NotLeader):
                await client.patch(NODES.path("", "n1"), {})
    await parts.store.close()
    assert api.requests == []


async def test_a_policy_s_status_says_whether_it_is_used_and_an_event_tells_of_a_bad_one(api: FakeApiServer) -> None:
    api.put(TASPOLICY_RESOURCE.path("ns", "good"), {"metadata": {"generation": 3}, **GOOD})
    api.put(TASPOLICY_RESOURCE.path("ns", "bad"), {"metadata": {"generation": 4}, **BAD})

    def conditions(name):
        found = of(api, TASPOLICY_RESOURCE.path("ns", name), "status", "conditions") or []
        return {each["type"]: (each["status"], each["reason"], each["observedGeneration"]) for each in found}

    async with started(api):
        await until(lambda: conditions("good") and conditions("bad"))
        assert conditions("good") == {"Accepted": ("True", "Accepted", 3), "Active": ("False", "NoMetrics", 3)}
        assert conditions("bad") == {"Accepted": ("False", "Invalid", 4), "Active": ("False", "Invalid", 4)}
        message = of(api, TASPOLICY_RESOURCE.path("ns", "bad"), "status", "conditions")[0]["message"]
        assert message.startswith("spec.strategies.deschedule.rules[0].metricname: got 'a b'")
        await until(lambda: [a.body["reason"] for a in api.requests if a.path.endswith("/events")] == ["PolicyRefused"])
        patches, renewals = api.verbs().count("patch"), api.verbs().count("update")
        await until(lambda: api.verbs().count("update") == renewals + 1)
        assert api.verbs().count("patch") == patches, "what is settled is not written again"
