"""When a new replica of the extender takes its share of the requests."""

import asyncio
import time

import pytest

from extender.app import FAILED_LISTING_GRACE_SECONDS
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency, encode_record
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start


@pytest.mark.slow
def test_a_frozen_etcd_is_waited_for_and_then_decided_without_until_it_answers_and_only_bounded_pods_are_refused(
    agent: Start, start: Start, etcd: Etcd
) -> None:
    """etcd holds the records of edge-1, under a lease of 20 s."""
    reporting = agent("edge-1", 1, "--push-interval-seconds", "5")
    until(lambda: reporting.get("/readyz")[0] == 200, "the first report acknowledged")
    etcd.freeze()
    began = time.monotonic()
    extender = start("extender")
    waits = "waits for the first listing of the state in etcd (Unavailable: "
    until(lambda: extender.get("/readyz")[1].startswith(waits), "it waits and says why")
    assert extender.get("/readyz")[0] == 503
    assert extender.get("/healthz")[0] == 200
    until(lambda: extender.get("/readyz")[0] == 200, "ready without etcd")
    assert time.monotonic() - began >= FAILED_LISTING_GRACE_SECONDS
    without = "ecides without news of the state in etcd (Unavailable: "
    assert without in extender.get("/readyz")[1]
    assert without in extender.log
    assert extender.ask("filter", ["a", "b"], {})["NodeNames"] == ["a", "b"]
    assert len({row["Score"] for row in extender.ask("prioritize", ["a", "b"], {})}) == 1
    bounded = extender.ask("filter", ["a", "b"], {"delay_a": "25"})
    assert bounded["NodeNames"] == ["a"], "a node is 0 ms from itself, whatever is known"
    assert bounded["FailedAndUnresolvableNodes"].keys() == {"b"}
    etcd.thaw()
    until(lambda: extender.get("/readyz") == (200, "ok\n"), "the state read")
    until(lambda: list(extender.nodes()) == ["edge-1"], "edge-1, whose lease may have ended meanwhile")


def test_a_new_replica_is_ready_once_each_node_has_reported_since_it_was_listed(start: Start, etcd: Etcd) -> None:
    """What a listing shows may be of any age. A pod that takes any unknown delay would be bound at once, although the
    records say that its bound is broken."""
    asyncio.run(report(etcd, 1))
    extender = start("extender")
    until(lambda: extender.get("/readyz") == (503, "waits for each node's next report (2 missing)\n"), "it waits")
    asyncio.run(report(etcd, 2))
    until(lambda: extender.get("/readyz")[0] == 200, "ready")
    pod = {"metadata": {"name": "p", "annotations": {"leadsman.dev/delay": "node/b: 5 all accept"}}, "spec": {}}
    assert extender.post("filter", {"Pod": pod, "NodeNames": ["a"]})["NodeNames"] == []


async def report(etcd: Etcd, sequence: int) -> None:
    """As two agents that are 9 ms apart, and report each 9 s."""
    window = PeerLatency(30, 30, p50_ms=9.0, p95_ms=9.0, min_ms=9.0, jitter_ms=0.1)
    store = EtcdStore(EtcdAccess((etcd.client_url,)))
    for node, peer in (("a", "b"), ("b", "a")):
        records = Identity("pod", 1, "10.0.0.1"), Latency({peer: window}), Heartbeat(1, sequence, 9.0)
        await store.write([Put(keys.record_key(node, type(each)), encode_record(each)) for each in records])
    await store.close()
