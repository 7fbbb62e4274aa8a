"""The agent's parts wired together: urgent reports, at a limited rate, and the zone from the Node object."""

import asyncio
import logging
import time
from contextlib import suppress
from random import Random

import pytest

from agent.rtt.peer import Lost, Peer
from agent.rtt.peer_stats import Probe
from agent.run import URGENT_REPORTS_BURST, AgentComponents, AgentSettings, UrgentReports, read_zone
from leadsman.kube.access import ApiAccess
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, ProbeMethod
from tests.conftest import Until
from tests.testbed.scripted_api_server import FakeApiServer


async def test_a_peer_that_falls_silent_has_the_ring_read_soon_and_a_report_sent() -> None:
    settings = AgentSettings("edge-1", "127.0.0.1", "owner", EtcdAccess(("http://127.0.0.1:1",)))
    parts = AgentComponents(settings, time.monotonic)
    parts.prober.set_peers([Peer("one", "127.0.0.1")])
    report = asyncio.create_task(parts.wakeup.sleep(600.0))
    urgent = asyncio.create_task(parts.urgent_reports.run())
    rest = asyncio.create_task(parts.peer_refresher._rest(600.0))
    await asyncio.sleep(0)
    target = parts.prober.stats.targets["one"]
    for second in range(LOSSES_OF_A_SILENT_PEER):
        parts.prober.stats.record_result(Probe(target, ProbeMethod.ICMP), float(second), Lost())
    async with asyncio.timeout(30.0):
        await asyncio.gather(report, rest)
    urgent.cancel()
    await asyncio.gather(urgent, return_exceptions=True)


class Reports:
    """Counts reports, with a clock that stands still unless the test moves it."""

    def __init__(self) -> None:
        self.count, self.now = 0, 0.0
        self.urgent = UrgentReports(self.report, lambda: 1, lambda: self.now, Random(1))

    def report(self) -> None:
        self.count += 1


async def test_requests_are_reports_until_the_burst_is_spent_and_then_wait_for_their_turn(until: Until) -> None:
    reports = Reports()
    task = asyncio.create_task(reports.urgent.run())
    for done in range(1, URGENT_REPORTS_BURST + 1):
        reports.urgent.request()
        await until(lambda done=done: reports.count == done)
    began = time.monotonic()
    reports.urgent.request()
    reports.urgent.request()
    await until(lambda: reports.count == URGENT_REPORTS_BURST + 1)
    assert time.monotonic() - began > 1.0, "half a report a second"
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


NODE = "/api/v1/nodes/edge-1"


async def test_the_zone_is_that_of_the_node_s_label() -> None:
    async with FakeApiServer() as api:
        api.put(NODE, {"metadata": {"labels": {"topology.kubernetes.io/zone": "north"}}})
        assert await read_zone(ApiAccess(api.url), "edge-1") == "north"


async def test_a_node_that_may_not_be_read_has_no_zone_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApiServer() as api:
        api.put(NODE, {"metadata": {"labels": {"topology.kubernetes.io/zone": "north"}}})
        api.deny("nodes")
        with caplog.at_level(logging.WARNING):
            assert await read_zone(ApiAccess(api.url), "edge-1") == ""
    assert "the zone of node edge-1 stays unknown until the agent restarts, unless --zone is set: " in caplog.text
