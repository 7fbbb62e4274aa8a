"""The agent's parts wired together: urgent reports, at a limited rate, and the zone from the Node object."""

import asyncio
import time
from random import Random

import pytest

from agent.pods.monitor import PodSettings
from agent.rtt.peer import Lost, Peer
from agent.rtt.peer_stats import Probe
from agent.run import URGENT_REPORTS_BURST, AgentComponents, AgentSettings, UrgentReports
from leadsman.kube.access import ApiAccess
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, ProbeMethod
from tests.conftest import Until
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer

NO_ETCD = EtcdAccess(("http://127.0.0.1:1",))


async def test_a_peer_that_falls_silent_has_the_ring_read_soon_and_a_report_sent() -> None:
    settings = AgentSettings("edge-1", "127.0.0.1", "owner", NO_ETCD)
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


async def test_the_zone_is_read_until_the_node_has_its_label_and_why_it_cannot_be_read_is_said_once(
    api: FakeApiServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """After a reboot the API server may be out of reach at first, and a node that joins gets its label later."""
    monkeypatch.setattr("agent.run.FIRST_ZONE_PAUSE_SECONDS", 0.0)
    pods = PodSettings(ApiAccess(api.url))
    parts = AgentComponents(AgentSettings("edge-1", "127.0.0.1", "owner", NO_ETCD, pods=pods), time.monotonic)
    api.put("/api/v1/nodes/edge-1", {"metadata": {}})
    api.fail("get", 403, times=3)
    await parts.read_zone()
    loops = parts.loops()
    async with running(loops.pop("zone")):
        await until(lambda: len(api.requests) > 4)
        assert parts.reporter.identity.zone == ""
        api.put("/api/v1/nodes/edge-1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "north"}}})
        await until(lambda: parts.reporter.identity.zone == "north")
    assert caplog.text.count("cannot read the zone of node edge-1") == 1
    for each in loops.values():
        each.close()
