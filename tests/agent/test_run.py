import asyncio
import time

from agent.rtt.peer import Lost, Peer
from agent.rtt.peer_stats import Probe
from agent.run import AgentComponents, AgentSettings
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, ProbeMethod


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
