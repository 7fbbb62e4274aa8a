"""Two controllers and one Lease: under work that pods cause, and when the leader was frozen."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from leadsman.kube.resources import LEASES
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.testbed.api_objects import parse_path
from leadsman.testbed.etcd import Etcd
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.scripted_api_server import ApiServerThread, FakeApiServer, RecordedRequest
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, write_records

LEASE = LEASES.path("leadsman", "leadsman-controller")
NODES = [f"n{number:04}" for number in range(1_000)]
NAMES = ("one", "two")
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
PLANNING = 'leadsman_controller_plan_seconds{keeper="requeue pods"}'


@pytest.fixture
def controllers(start: Start, api: ApiServerThread, tmp_path: Path) -> "dict[str, LeadsmanProcess]":
    """By the token that each shows to the API server."""
    running = {}
    for name in NAMES:
        (tmp_path / name).write_text(name)
        running[name] = start("controller", "--kube-api", api.url, "--kube-token-file", str(tmp_path / name))
    return running


def lease(api: ApiServerThread) -> dict[str, Any]:
    def spec(server: FakeApiServer) -> dict[str, Any]:
        try:
            found: dict[str, Any] = server.objects.get(parse_path(LEASE))["spec"]
        except Exception:
            return {}
        return found

    return api.call(spec)


def leader(api: ApiServerThread, controllers: "dict[str, LeadsmanProcess]") -> str:
    """The one that holds the Lease, by its own metric; "" when none does."""
    leading = [name for name, one in controllers.items() if one.metric("leadsman_controller_leader") == 1]
    return leading[0] if len(leading) == 1 and lease(api).get("holderIdentity") else ""


def writes(api: ApiServerThread, since: int, by: str) -> list[RecordedRequest]:
    """Of the objects that only a leader writes."""
    requests = api.call(lambda server: list(server.requests))[since:]
    by_one = (one for one in requests if one.token == by and "leases" not in one.path)
    return [one for one in by_one if one.verb not in ("list", "watch", "get")]


async def put_states(etcd: Etcd) -> None:
    """A thousand nodes that have measured 32 others."""
    latency = Latency({to: PeerLatency(30, 30, p50_ms=50.0, p95_ms=60.0, min_ms=40.0) for to in NODES[:32]})
    for sequence in (1, 2):
        records = (Identity("pod", 1, "10.0.0.1"), latency, Heartbeat(1, sequence, 60.0))
        await write_records(etcd, dict.fromkeys(NODES, records))


def test_200_pods_of_32_bounds_at_1000_nodes_leave_the_lease_where_it_is(
    api: ApiServerThread, etcd: Etcd, controllers: "dict[str, LeadsmanProcess]"
) -> None:
    for node in NODES:
        api.put(f"/api/v1/nodes/{node}", {})
    asyncio.run(put_states(etcd))
    leading = until(lambda: leader(api, controllers), "one leads")
    transitions = lease(api).get("leaseTransitions")
    status = {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
    for number in range(200):
        labels = {f"delay_{NODES[(number + 31 * bound) % 1_000]}": "45" for bound in range(32)}
        api.put(f"/api/v1/namespaces/default/pods/p{number}", {"metadata": {"labels": labels}, "status": status})
    until(lambda: controllers[leading].metric(PLANNING) > 0.1, "all are planned for")
    for _ in range(8):
        before = lease(api)["renewTime"]
        until(lambda before=before: lease(api)["renewTime"] != before, "the Lease renewed", 9)
    assert leader(api, controllers) == leading
    assert lease(api).get("leaseTransitions") == transitions
    assert "lost leadership" not in controllers[leading].log


def test_a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_goes_on(
    api: ApiServerThread, controllers: "dict[str, LeadsmanProcess]"
) -> None:
    """Frozen amid removals of 1,000 nodes' marks: the API server is slow, so some are under way, and others wait. Not
    between the question whether it leads and the packet, a moment that no client can close (leader_election)."""
    first = until(lambda: leader(api, controllers), "one leads")
    second = NAMES[1 - NAMES.index(first)]
    api.call(lambda server: setattr(server, "slow_seconds", 0.5))
    marked = {"labels": {"hot": "violating"}, "annotations": {"leadsman.dev/telemetry-labels": '{"hot":"ns/hot"}'}}
    for node in NODES:
        api.put(f"/api/v1/nodes/{node}", {"metadata": marked})
    counts = [0]

    def all_are_sent_that_may_be_under_way() -> bool:
        counts.append(len(writes(api, 0, first)))
        return counts[-2] == counts[-1] > 0

    until(all_are_sent_that_may_be_under_way, "the leader's first writes")
    controllers[first].freeze()
    until(lambda: lease(api)["holderIdentity"] and writes(api, 0, second), "the other leads and writes", 60)
    since = api.call(lambda server: len(server.requests))
    controllers[first].thaw()
    until(lambda: len(writes(api, since, second)) > 100, "the other goes on", 60)
    until(lambda: controllers[first].get("/healthz")[0] == 200, "the first one answers")
    assert writes(api, since, first) == []
    assert "lost leadership" in controllers[first].log
