"""The agent's process: builds its components, runs their loops as one group, and removes its records at the end.

A loop that fails ends the process, and kubelet starts a new one. Shutdown: not ready → loops cancelled →
lease revoked, within a time limit.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import web
from msgspec import Struct, structs
from prometheus_client.core import Metric

from agent.hardware.metric_plugins import metric_plugins
from agent.hardware.monitor import HardwareMonitor, default_collectors, hardware_metrics
from agent.peering.peer_refresh import PROBE_BUDGET, PeeringSettings, PeerRefresher
from agent.peering.probe_requests import ProbeRequestHandler, peering_metrics
from agent.pods.monitor import PodMonitor, PodSettings, pod_metrics
from agent.pods.reward_persistence import RewardPersistence
from agent.reporting import Loop, LoopLiveness, Reporter, current_records
from agent.rtt.peer import ProbeSettings
from agent.rtt.prober import Prober, rtt_metrics
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.kube.names import ZONE_LABEL
from leadsman.kube.objects import Node
from leadsman.plugin import HostRoots
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.http_server import Health, create_ops_app, good_unless, serve
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.process import finish_within, run_tasks
from leadsman.runtime.scrape import counter, create_registry, gauge
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.keys import check_node_name
from leadsman.state.records import Identity
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import StoreError


class AgentSettings(Struct, frozen=True):
    """The settings of one agent, read once when it starts.

    node, address: the node's name and the address that its peers probe.
    owner: the pod's UID. Two owners never write one node's records.
    max_peers: how many are probed. An agent's cost grows with it, not with the cluster.
    probe_budget: probes a second that all agents together may send. Each computes its share from the number of nodes,
        so all must have the same budget.
    own_network: as in HostRoots.
    pods: None when the node's pods are not followed.
    hardware_metrics: whether /metrics shows the hardware too. It is measured and reported either way.
    metric_plugins: names of other packages' metrics.
    """

    node: str
    address: str
    owner: str
    etcd: EtcdAccess
    zone: str = ""
    rack: str = ""
    max_peers: int = 16
    probe_budget: float = PROBE_BUDGET
    probing: ProbeSettings = ProbeSettings()
    timing: ReportTiming = ReportTiming()
    listen: str = "0.0.0.0:9102"
    proc_root: Path = Path("/proc")
    sys_root: Path = Path("/sys")
    rootfs: Path = Path("/")
    own_network: bool = False
    pods: PodSettings | None = None
    hardware_metrics: bool = True
    metric_plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_node_name(self.node)


def own_metrics(node: str, reporter: Reporter) -> Iterator[Metric]:
    """Yields the node's name, to join with whatever the scraper calls the instance, and the reports to etcd."""
    yield gauge(
        "leadsman_agent_info",
        "Constant 1, labelled with the name, zone and rack of the node that the agent measures.",
        {(node, reporter.identity.zone, reporter.identity.rack): 1},
        "node",
        "zone",
        "rack",
    )
    yield counter("leadsman_reports", "Reports that etcd acknowledged.", reporter.report_count)
    yield counter("leadsman_report_failures", "Reports to etcd that failed, by cause.", reporter.failures, "cause")


log = logging.getLogger(__name__)

DEADLINE_SECONDS = 3.0
"""The agent waits for this before it measures."""
FIRST_ZONE_PAUSE_SECONDS, MAX_ZONE_PAUSE_SECONDS = 60.0, 3600.0
"""Longest pauses between two reads of an unknown zone. Agents of nodes without one read on: 5,000 of them ask the API
server three times a second."""


class Wakeup:
    """One task sleeps, and any other on the same loop wakes it.

    Calls of `wake` before and during a sleep count, several as one.
    """

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()


URGENT_REPORTS_PER_SECOND, URGENT_REPORTS_BURST = 0.5, 3
"""An agent reports so often out of turn. At 30 % loss, one of 16 peers falls silent or returns about once a second."""

URGENT_REPORTS_PER_SECOND_OF_ALL = 2_000.0
"""Agents spread the first report after a fault that all see over so long that etcd gets no more: 50 ms at 100 nodes,
2.5 s at 5,000."""


class UrgentReports:
    """Has a report sent at once when a peer falls silent or answers again, at a limited rate: call `request`.

    report: has the report sent.
    nodes: in the cluster, about.
    clock: monotonic seconds.
    """

    def __init__(
        self, report: Callable[[], None], nodes: Callable[[], int], clock: Callable[[], float], rng: Random
    ) -> None:
        self._report, self._nodes, self._rng = report, nodes, rng
        self._rate = TokenBucket(URGENT_REPORTS_PER_SECOND, URGENT_REPORTS_BURST, clock)
        self._requested = asyncio.Event()

    def request(self) -> None:
        self._requested.set()

    async def run(self) -> None:
        """Runs until cancelled. Requests that come during a wait are one report."""
        while True:
            await self._requested.wait()
            await asyncio.sleep(self._rng.uniform(0, self._nodes() / URGENT_REPORTS_PER_SECOND_OF_ALL))
            await self._rate.wait()
            self._requested.clear()
            self._report()


SHUTDOWN_TIMEOUT_SECONDS = 3.0
REQUESTS_SILENCE_SECONDS = 1500.0
"""The agent's one watch, of its probe requests, may be silent for so long. It is opened again after half of it: that
costs a connection, and with TLS a handshake, of every node. etcd says every 10 to 11 minutes that it is there, so it
never comes to that. TCP's keep-alive notices within 25 s when the other end has vanished."""


async def run(settings: AgentSettings, stop: asyncio.Event, clock: Callable[[], float] = time.monotonic) -> None:
    """Runs until `stop`. Raises what ended a loop, such as NodeAlreadyOwned when another agent writes this node."""
    parts = AgentComponents(settings, clock)
    await parts.read_zone()
    host, _, port = settings.listen.rpartition(":")
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(serve(_ops_app(parts), host.strip("[]"), int(port)))
        stack.push_async_callback(parts.store.close)
        log.info("agent of node %s: metrics on http://%s/metrics", settings.node, settings.listen)
        try:
            await run_tasks(parts.loops(), stop)
        finally:
            # When etcd does not answer, the node's records go when the lease expires.
            await finish_within(SHUTDOWN_TIMEOUT_SECONDS, _close(parts), (StoreError,))
    log.info("agent of node %s stopped", settings.node)


class AgentComponents:
    """Holds the components of an agent, wired together."""

    def __init__(self, settings: AgentSettings, clock: Callable[[], float]) -> None:
        self.settings, self.clock = settings, clock
        self.store = EtcdStore(
            settings.etcd, silence_seconds=max(REQUESTS_SILENCE_SECONDS, settings.timing.stale_seconds)
        )
        self.wakeup = Wakeup()
        self.urgent_reports = UrgentReports(
            self.wakeup.wake, lambda: self.peer_refresher.assumed_nodes, clock, Random()
        )
        self.refresh_wakeup = Wakeup()
        self.prober = Prober(settings.probing, on_silence=self.on_silence)
        probing = settings.probing
        peering = PeeringSettings(
            settings.timing, probing.interval_seconds, probing.window_seconds, settings.probe_budget
        )
        self.peer_refresher = PeerRefresher(
            self.store,
            settings.node,
            settings.max_peers,
            peering,
            self.prober,
            self.wakeup.wake,
            clock,
            pause=self.refresh_wakeup.sleep,
        )
        self.prober.stats.on_rtt = self.peer_refresher.own_coordinate.update
        self.probe_requests = ProbeRequestHandler(
            *(self.store, self.peer_refresher, self.prober, self.wakeup.wake, clock),
            timeout_seconds=probing.timeout_seconds,
        )
        roots = HostRoots(str(settings.proc_root), str(settings.sys_root), str(settings.rootfs), settings.own_network)
        self.hardware = HardwareMonitor(
            roots,
            collectors=default_collectors() | metric_plugins(settings.metric_plugins),
            clock=clock,
            interval_seconds=settings.timing.push_interval_seconds,
        )
        self.reward_persistence = RewardPersistence(
            self.store, settings.node, lambda: self.reporter.ownership, Random(), lambda: self.reporter.fence()
        )
        self.pods = self._pods()
        loops: dict[str, Loop] = {"probes": self.prober, "hardware": self.hardware}
        loops |= {"pods": self.pods} if self.pods else {}
        self.liveness = LoopLiveness(loops, settings.timing.stale_seconds, clock)
        identity = Identity(settings.owner, 0, settings.address, settings.zone, settings.rack)
        self.reporter = Reporter(
            self.store,
            settings.node,
            identity,
            self.peer_refresher.timing,
            partial(current_records, self.prober.stats, self.hardware, self.peer_refresher, settings.address, clock),
            self.liveness,
            Random(),
            pause=self.wakeup.sleep,
            spread=self.peer_refresher.spread,
        )
        self._zone_problem = ProblemLog(
            log,
            f"agent cannot read the zone of node {settings.node}; it stays unknown, and the agent tries again",
            f"agent can read the zone of node {settings.node} again",
        )

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        always = {
            "probes": self.prober.run(),
            "hardware": self.hardware.run(),
            "reports": self.reporter.run(),
            "urgent reports": self.urgent_reports.run(),
            "peers": self.peer_refresher.run(),
            "requests": self.probe_requests.run(),
            "zone": self.keep_reading_zone(),
        }
        return always if self.pods is None else always | {"pods": self.pods.run()}

    async def read_zone(self) -> None:
        """Reads an unknown zone from the Node object: before Kubernetes 1.35 nobody hands it to the node's pods."""
        if self.settings.pods is None or self.reporter.identity.zone:
            return
        async with ApiClient(self.settings.pods.api, deadline_seconds=DEADLINE_SECONDS) as client:
            try:
                labels = (await client.get(f"/api/v1/nodes/{self.settings.node}", Node)).metadata.labels
            except ApiError as error:
                self._zone_problem.report(error)
                return
        self._zone_problem.clear()
        self.reporter.identity = structs.replace(self.reporter.identity, zone=labels.get(ZONE_LABEL, ""))

    async def keep_reading_zone(self) -> None:
        """Ends when the zone is known: the API server may be out of reach at first, or the node's label come later."""
        backoff = Backoff(FIRST_ZONE_PAUSE_SECONDS, MAX_ZONE_PAUSE_SECONDS, Random())
        while self.settings.pods is not None and not self.reporter.identity.zone:
            await asyncio.sleep(backoff.next_seconds())
            await self.read_zone()

    def on_silence(self) -> None:
        self.urgent_reports.request()
        self.refresh_wakeup.wake()

    def _pods(self) -> PodMonitor | None:
        settings = self.settings
        if settings.pods is None:
            return None
        interval = settings.timing.push_interval_seconds
        return PodMonitor(
            settings.node,
            settings.pods,
            self.reward_persistence,
            interval,
            lambda: interval * self.peer_refresher.stretch,
            self.clock,
            time.time,
        )


def _ops_app(parts: AgentComponents) -> web.Application:
    registry = create_registry(
        lambda: own_metrics(parts.settings.node, parts.reporter),
        lambda: rtt_metrics(parts.prober, parts.clock(), parts.peer_refresher.selection.lasting_names),
        lambda: hardware_metrics(parts.hardware.latest, parts.settings.hardware_metrics),
        lambda: peering_metrics(parts.probe_requests),
        lambda: pod_metrics(parts.pods, parts.reward_persistence) if parts.pods else (),
    )
    reporter = parts.reporter

    def healthz() -> Health:
        """Tells whether the process's own loops go on. It never depends on etcd: a restart would not bring it back."""
        stalled = parts.liveness.stalled().items()
        return good_unless("\n".join(f"loop {name} made no progress for {age:.0f} s" for name, age in stalled))

    def readyz() -> Health:
        return good_unless(reporter.problem.text or ("" if reporter.report_count else "no report was acknowledged yet"))

    return create_ops_app(registry, healthz, readyz)


async def _close(parts: AgentComponents) -> None:
    """Saves what was counted of pods, and ends the lease: the node's records go with it."""
    if parts.pods is not None:
        await parts.pods.close()
    await parts.reporter.close()
