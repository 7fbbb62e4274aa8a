"""The agent's parts wired together: urgent reports, at a limited rate, and the zone from the Node object."""

import asyncio
import time
from random import Random

import pytest

from agent.rtt.peer import Lost, Peer
from agent.rtt.peer_stats import Probe
from agent.run import URGENT_REPORTS_BURST, AgentComponents, AgentSettings, UrgentReports, read_zone
from leadsman.kube.access import ApiAccess
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, ProbeMethod
from tests.conftest import Until
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer


async def test_a_peer_that_falls_silent_has_the_ring_read_soon_and_a_report_sent() -> None:
    settings = AgentSettings("edge-1", "127.0.0.1", "owner", EtcdAccess(("http://127.0.0.1:1",)))
    parts = AgentComponents(settings, time.monotonic)
    parts.prober.set_peers([Peer("one", "127.0.0.1")])
    report = asyncio.create_task(parts.wakeup.sleep(600.0))
    rest = asyncio.create_task(parts.peer_refresher._rest(600.0))
    async with running(parts.urgent_reports.run()), asyncio.timeout(30.0):
        await asyncio.sleep(0)
        target = parts.prober.stats.targets["one"]
        for second in range(LOSSES_OF_A_SILENT_PEER):
            parts.prober.stats.record_result(Probe(target, ProbeMethod.ICMP), float(second), Lost())
        await asyncio.gather(report, rest)


async def test_requests_are_reports_until_the_burst_is_spent_and_then_wait_for_their_turn(until: Until) -> None:
    """The clock stands still."""
    reports = list[None]()
    urgent = UrgentReports(lambda: reports.append(None), lambda: 1, lambda: 0.0, Random(1))
    async with running(urgent.run()):
        for done in range(1, URGENT_REPORTS_BURST + 1):
            urgent.request()
            await until(lambda done=done: len(reports) == done)
        began = time.monotonic()
        urgent.request()
        urgent.request()
        await until(lambda: len(reports) == URGENT_REPORTS_BURST + 1)
        assert time.monotonic() - began > 1.0, "half a report a second"


async def test_the_zone_is_that_of_the_node_s_label_and_unknown_with_the_reason_where_it_may_not_be_read(
    api: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    api.put("/api/v1/nodes/edge-1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "north"}}})
    assert await read_zone(ApiAccess(api.url), "edge-1") == "north"
    api.deny("nodes")
    assert await read_zone(ApiAccess(api.url), "edge-1") == ""
    assert "the zone of node edge-1 stays unknown until the agent restarts, unless --zone is set: " in caplog.text
