"""When a new replica of the extender takes its share of the requests."""

import asyncio

from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.testbed.etcd import Etcd
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, write_records


def test_a_new_replica_is_ready_once_each_node_has_reported_since_it_was_listed(start: Start, etcd: Etcd) -> None:
    """What a listing shows may be of any age. A pod that takes any unknown delay would be bound at once, although the
    records say that its bound is broken."""
    asyncio.run(report(etcd, 1))
    extender = start("extender")
    until(lambda: extender.get("/readyz") == (503, "waits for each node's next report (2 missing)\n"), "it waits")
    asyncio.run(report(etcd, 2))
    extender.ready()
    pod = {"metadata": {"name": "p", "annotations": {"leadsman.dev/delay": "node/b: 5 all accept"}}, "spec": {}}
    assert extender.post("filter", {"Pod": pod, "NodeNames": ["a"]})["NodeNames"] == []


async def report(etcd: Etcd, sequence: int) -> None:
    """As two agents that are 9 ms apart, and report each 9 s."""
    window = PeerLatency(30, 30, p50_ms=9.0, p95_ms=9.0, min_ms=9.0, jitter_ms=0.1)
    common = Identity("pod", 1, "10.0.0.1"), Heartbeat(1, sequence, 9.0)
    pairs = {"a": "b", "b": "a"}
    await write_records(etcd, {node: (Latency({peer: window}), *common) for node, peer in pairs.items()})
