"""A pair that nobody measures, asked for over a real etcd, measured by a real agent, and in etcd at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from extender.record_queues import ProbeRequestQueue
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Latency
from leadsman.testbed.etcd import Etcd
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.background import running
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, records

NODES = ["edge-1", "edge-2", "edge-3", "edge-4"]
FEW = ["--max-peers", "1", "--push-interval-seconds", "5"]


@pytest.fixture
async def store(etcd: Etcd) -> AsyncIterator[EtcdStore]:
    found = EtcdStore(EtcdAccess((etcd.client_url,), call_timeout_seconds=30.0), silence_seconds=60.0)
    yield found
    await found.close()


@pytest.fixture
def agents(agent: Start) -> dict[str, LeadsmanProcess]:
    """Each probes one other, and reports every 5 s."""
    found = {name: agent(name, number, *FEW) for number, name in enumerate(NODES, start=1)}
    until(lambda: all(len(peers(one)) == 1 for one in found.values()), "one peer each")
    return found


def reported(etcd: Etcd, node: str) -> dict[str, Any]:
    """The peers in the node's record."""
    key = keys.record_key(node, Latency)
    return dict(records(etcd, key).get(key, {}).get("peers", {}))


def peers(process) -> set[str]:
    """Whom it has measured."""
    lines = process.get("/metrics")[1].splitlines()
    return {line.split('"')[1] for line in lines if line.startswith("leadsman_peer_rtt_p50_seconds{")}


async def test_a_pair_asked_for_is_in_etcd_within_two_seconds_and_a_node_that_is_not_there_is_only_counted(
    store: EtcdStore, etcd: Etcd, agents: dict[str, LeadsmanProcess]
) -> None:
    await asyncio.to_thread(until, lambda: reported(etcd, "edge-1"), "its first report")
    target = next(name for name in NODES[1:] if name not in peers(agents["edge-1"]))
    requests = ProbeRequestQueue(store)
    async with running(requests.run()):
        requests.enqueue([("edge-1", target)])
        await asyncio.to_thread(until, lambda: target in reported(etcd, "edge-1"), "the pair in etcd", 2.0)
    assert reported(etcd, "edge-1")[target]["p50_ms"] is not None
    assert agents["edge-1"].metric('leadsman_probe_requests_total{result="accepted"}') == 1
    requests = ProbeRequestQueue(store)
    requests.enqueue([("edge-1", "nobody")])
    await requests.write()
    unknown = 'leadsman_probe_requests_total{result="unknown"}'
    await asyncio.to_thread(until, lambda: agents["edge-1"].metric(unknown) == 1, "counted")
    assert "nobody" not in peers(agents["edge-1"])
