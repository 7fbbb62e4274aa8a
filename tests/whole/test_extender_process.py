"""The extender as a process between real agents and a scheduler's requests."""

import asyncio

from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.testbed.etcd import Etcd
from tests.leadsman_process import LeadsmanProcess
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, write_records

BOTH = ["edge-1", "edge-2"]


def both_measured(extender: LeadsmanProcess) -> bool:
    nodes = extender.nodes()
    return len(nodes) == 2 and all(n["status"] == "fresh" and n["peers_p50_ms"] for n in nodes.values())


def test_a_bound_holds_on_what_the_agents_measure_while_etcd_goes_is_wiped_and_an_agent_dies(
    agent: Start, start: Start, etcd: Etcd
) -> None:
    _, two, extender = agent("edge-1", 1), agent("edge-2", 2), start("extender")
    until(lambda: both_measured(extender), "edge-1 and edge-2 fresh and measured")
    assert extender.ask("filter", BOTH, {"delay_edge-1": "50"})["NodeNames"] == BOTH
    only = extender.ask("filter", BOTH, {"delay_edge-1": "0"})
    assert only["NodeNames"] == ["edge-1"]
    assert only["FailedAndUnresolvableNodes"] == {"edge-2": "delay to edge-1 over 0 ms"}

    etcd.kill()
    until(lambda: not extender.fresh(), "all stale", 3 + 2)
    assert extender.get("/readyz")[0] == 200, "once ready it stays ready"
    etcd.start()
    until(lambda: extender.fresh() == set(BOTH), "both fresh again", 10)

    etcd.wipe()
    etcd.start()
    until(lambda: not extender.fresh(), "all stale", 3 + 2)
    until(lambda: extender.fresh() == set(BOTH), "the view rebuilt", 15)

    two.kill()
    until(lambda: "edge-2" not in extender.fresh(), "edge-2 not fresh any more", 3 + 2)
    until(lambda: "edge-2" not in extender.nodes(), "edge-2 gone", 4 + 4)
    assert extender.ask("filter", BOTH, {})["NodeNames"] == BOTH, "a pod without a bound may still go there"
    assert extender.stop() == 0
    assert "Traceback" not in extender.log


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
