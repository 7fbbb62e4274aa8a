"""The controller's process: it watches, plans and acts while it holds the Lease, and releases the Lease at the end.

It serves /metrics, /healthz (no keeper is stalled), /readyz (what plans need is listed) and /plan.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import msgspec
from aiohttp import web
from msgspec import structs
from prometheus_client.core import Metric

from controller.backup_keeper import BackupKeeper
from controller.device_health import DeviceHealthKeeper
from controller.keeper import HealedCluster, Keeper, KeeperLoops, NodeCache, Tools
from controller.labels import LabelReconciler, NodePatcher
from controller.moves import Rebalancer, Replacement
from controller.node_health import NodeConditions, NodeHealthReporter, NodeLeases
from controller.node_recovery import NodeRecovery
from controller.pods import BindFailureCounter, Requeuer, UncheckedPodReporter, WaitingPodReporter, WatchedPod
from controller.policies import MissingPolicyReporter, PolicyStatusWriter
from controller.settings import ControllerSettings, DeviceHealthMode, SelfHealingSettings
from extender.plugins.host import PluginHost
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.kube.events import EventWriter
from leadsman.kube.leader_election import CALL_TIMEOUT_SECONDS, LeaderElector
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import POLICY_LABEL
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import PODS
from leadsman.planning.failover.node_verdict import NodeVerdict
from leadsman.runtime.http_server import Health, create_ops_app, good_unless, serve
from leadsman.runtime.process import finish_within, run_tasks
from leadsman.runtime.scrape import counter, create_registry, gauge
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.workload_follower import UNFINISHED_PODS
from leadsman.sources.device_reservations import READ_TIMEOUT_SECONDS, DeviceReservations
from leadsman.sources.telemetry.telemetry_sources import TasPolicyFollower
from leadsman.sources.wiring import FollowedSources, SourceSettings
from leadsman.state.etcd_store import EtcdStore

PATCHES_BURST = 50
EVENTS_PER_SECOND, EVENTS_BURST = 50.0, 100
POLICY_EVENTS_PER_SECOND, POLICY_EVENTS_BURST = 5.0, 50
WAITING_EVENTS_PER_SECOND, WAITING_EVENTS_BURST = 2.0, 50
TOUCHES_PER_SECOND = 0.2
EVENT_READS_PER_SECOND, EVENT_READS_BURST = 5.0, 10
LEASE_READS_PER_SECOND, LEASE_READS_BURST = 10.0, 50
CONDITION_PATCHES_PER_SECOND, CONDITION_PATCHES_BURST = 10.0, 50
NODE_HEALTH_DEADLINE_SECONDS = 3.0
"""A call about a node's health ends after this time: a later answer is worth less than the next judgement."""


class SelfHealing:
    """Makes the keepers of self-healing. One that the settings leave out is None; a dry run plans backups and moves
    only.

    verdicts: on every node, by name.
    """

    def __init__(
        self, tools: Tools, settings: SelfHealingSettings, verdicts: Callable[[], Mapping[str, NodeVerdict]]
    ) -> None:
        self.healed = healed = HealedCluster(tools, settings, verdicts)
        self.cluster = healed.follower
        self.backups = BackupKeeper(tools, healed)
        self.recovery: NodeRecovery | None = None
        self.replacement: Replacement | None = None
        self.rebalancer: Rebalancer | None = None
        if settings.replacement:
            self.replacement = Replacement(tools, healed, settings.replacement)
        if not tools.is_dry_run:
            self.recovery = NodeRecovery(tools, healed, self.backups, self.replacement)
            if settings.rebalance and self.replacement:
                self.rebalancer = Rebalancer(tools, healed, self.replacement, settings.rebalance)
        keepers: list[Keeper | None] = [self.backups, self.recovery, self.replacement, self.rebalancer]
        self.keepers = [keeper for keeper in keepers if keeper is not None]

    def loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """Returns what runs beside the keepers."""
        return {"follow the cluster": self.cluster.run()}

    def page(self) -> Mapping[str, Any]:
        """Returns what is planned and done, as JSON values."""
        if self.cluster.current is None:
            return {"none": f"the cluster is not listed yet: {self.cluster.problem or 'no answer yet'}"}
        sections = {"recovery": self.recovery, "replacement": self.replacement, "rebalancing": self.rebalancer}
        return {
            **self.backups.page(),
            **{name: keeper.page() for name, keeper in sections.items() if keeper is not None},
        }


class ControllerParts:
    """Holds everything that a controller consists of. A part that the settings leave out is None; a dry run elects no
    leader and writes no Events."""

    def __init__(self, settings: ControllerSettings) -> None:
        self.settings = settings
        self.store = EtcdStore(settings.etcd)
        api = settings.telemetry.api
        self.followed_sources = FollowedSources(
            self.store,
            SourceSettings(
                settings.policy,
                api,
                settings.delays,
                settings.telemetry,
                devices=settings.devices,
                claims=False,
                node_annotations=True,
            ),
        )
        self.client = ApiClient(api, may_write=self.may_write)
        self.lease_client = ApiClient(api, deadline_seconds=CALL_TIMEOUT_SECONDS)
        self.health_client = ApiClient(api, deadline_seconds=NODE_HEALTH_DEADLINE_SECONDS, may_write=self.may_write)
        self.leader_elector: LeaderElector | None = None
        self.event_writer: EventWriter | None = None
        if not settings.dry_run:
            self.leader_elector = LeaderElector(self.lease_client, *settings.lease, settings.identity)
            event_rate = TokenBucket(EVENTS_PER_SECOND, EVENTS_BURST)
            self.event_writer = EventWriter(self.client, event_rate, settings.identity)
        sources = self.followed_sources.input_sources
        self.plugins = PluginHost(lambda: self.followed_sources.policy_file.current, sources.current_inputs)
        devices = sources.devices
        reservations = DeviceReservations(self.store, devices, READ_TIMEOUT_SECONDS) if devices else None
        self.tools = Tools(
            self.client,
            self.is_leader,
            sources.current_inputs,
            self.event_writer,
            settings.lease[0],
            reservations.read if reservations else None,
            self.plugins.judges_of_plan,
        )
        pending = ListOptions(PODS, field_selector="spec.nodeName=,status.phase=Pending")
        labelled = ListOptions(PODS, label_selector=POLICY_LABEL, field_selector=UNFINISHED_PODS, metadata_only=True)
        self.pending_pods_reflector = Reflector(self.client, pending, WatchedPod)
        self.policy_pods_reflector = Reflector(self.client, labelled, PartialObjectMetadata)
        assert self.followed_sources.cluster is not None, "Settings always have an API server"
        self.node_cache = NodeCache(self.followed_sources.cluster.nodes.reflector)
        self.pages: dict[str, Callable[[], Mapping[str, Any]]] = {}
        self.node_health: NodeHealthReporter | None = None
        self.self_healing: SelfHealing | None = None
        self.device_health: DeviceHealthKeeper | None = None
        patcher = NodePatcher(self.client, self.node_cache, TokenBucket(settings.patches_per_second, PATCHES_BURST))
        self.label_reconciler = LabelReconciler(
            self.tools, self.node_cache, patcher, settings.limits, lambda: self.policies.reflector.is_served
        )
        self.keepers = [self.label_reconciler, *self._reporters(), *self._health()]
        self.keeper_loops = KeeperLoops(self.keepers)

    def _reporters(self) -> Iterator[Keeper]:
        """Returns what has refused pods retried, and what says something of pods and policies."""
        tools, nodes, pending = self.tools, self.node_cache, self.pending_pods_reflector
        yield Requeuer(tools, pending, nodes, TokenBucket(TOUCHES_PER_SECOND, 1))
        yield BindFailureCounter(tools, pending, TokenBucket(EVENT_READS_PER_SECOND, EVENT_READS_BURST))
        yield UncheckedPodReporter(tools, tells_placements=self.settings.placement_events)
        yield WaitingPodReporter(tools, pending, nodes, TokenBucket(WAITING_EVENTS_PER_SECOND, WAITING_EVENTS_BURST))
        yield PolicyStatusWriter(tools, lambda: self.policies.objects)
        rate = TokenBucket(POLICY_EVENTS_PER_SECOND, POLICY_EVENTS_BURST)
        yield MissingPolicyReporter(tools, self.policy_pods_reflector, lambda: self.policies.current, rate)

    def _health(self) -> Iterator[Keeper]:
        """Returns what the settings switch on: health of nodes, self-healing, health of devices."""
        settings = self.settings
        if settings.node_health is not None:
            tools = structs.replace(self.tools, client=self.health_client)
            lease_reads = TokenBucket(LEASE_READS_PER_SECOND, LEASE_READS_BURST)
            leases = NodeLeases(self.health_client, lease_reads, tools.clock)
            rack_label = settings.self_healing.backups.rack_label
            health = NodeHealthReporter(tools, self.node_cache, leases, settings.node_health, rack_label)
            patches = TokenBucket(CONDITION_PATCHES_PER_SECOND, CONDITION_PATCHES_BURST)
            self.node_health, self.pages["node_health"] = health, health.page
            yield health
            yield NodeConditions(tools, self._verdicts, self.node_cache.uid, patches)
        if settings.self_healing.enabled:
            self.self_healing = SelfHealing(self.tools, settings.self_healing, self._verdicts)
            self.pages["self_healing"] = self.self_healing.page
            yield from self.self_healing.keepers
        if settings.device_health is not DeviceHealthMode.OFF:
            acts = settings.device_health is DeviceHealthMode.ACT
            tools = self.tools if acts else structs.replace(self.tools, events=None)
            self.device_health = DeviceHealthKeeper(
                tools,
                settings.telemetry,
                self.node_cache,
                lambda: self.followed_sources.policy_file.current.devices.health,
            )
            self.pages["device_health"] = self.device_health.page
            yield self.device_health

    def _verdicts(self) -> Mapping[str, NodeVerdict]:
        return self.node_health.verdicts if self.node_health else {}

    def is_leader(self) -> bool:
        return self.leader_elector is None or self.leader_elector.is_leader

    def may_write(self) -> bool:
        """Tells whether this replica leads; one of a dry run never writes."""
        return self.leader_elector is not None and self.leader_elector.is_leader

    @property
    def policies(self) -> TasPolicyFollower:
        assert self.followed_sources.telemetry is not None, "Settings always have it"
        return self.followed_sources.telemetry.policies

    def page(self) -> Mapping[str, Any]:
        """Returns what /plan shows: the last plan of labels, and what the other keepers show."""
        return {**self.label_reconciler.page(), **{name: page() for name, page in self.pages.items()}}

    def not_ready_reasons(self) -> list[str]:
        """Returns what is not listed yet and keeps plans from being made, and keepers' faults; [] when all is well.

        Where TASPolicies are not served, the component telemetry is not installed, and no plan waits for them.
        """
        needed = (self.node_cache.watched, self.pending_pods_reflector, self.policies.reflector)
        missing = [each for each in needed if each.is_served and not each.loaded.is_set()]
        return [
            *(
                f"{each.list_options.resource.plural} are not listed: {each.problem.text or 'no answer yet'}"
                for each in missing
            ),
            *(f"a fault of {each.name}: {each.fault.text}" for each in self.keepers if each.fault.text),
        ]

    def families(self) -> Iterator[Metric]:
        """Yields the metrics of every part."""
        yield from self.followed_sources.families()
        yield from self.plugins.families()
        for keeper in self.keepers:
            yield from keeper.families()
        yield gauge(
            "leadsman_controller_plan_seconds",
            "Seconds that making the last plan took, by what is kept.",
            {keeper.name: keeper.plan_seconds for keeper in self.keepers if keeper.plan_seconds},
            "keeper",
        )
        if elector := self.leader_elector:
            yield gauge(
                "leadsman_controller_leader",
                "1 while this replica holds the Lease and acts, else 0.",
                float(elector.is_leader),
            )
        if events := self.event_writer:
            yield counter("leadsman_controller_events", "Events that the controller wrote.", events.written)

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Returns the name and loop of each task; all run until cancelled."""
        writers = {"elect a leader": self.leader_elector, "write Events": self.event_writer}
        return {
            **dict(self.followed_sources.tasks()),
            "keep the plugins": self.plugins.run(),
            "watch pending pods": self.pending_pods_reflector.run(),
            "watch pods that name a policy": self.policy_pods_reflector.run(),
            **{name: part.run() for name, part in writers.items() if part is not None},
            **self.keeper_loops.loops(),
            **(self.self_healing.loops() if self.self_healing else {}),
        }


log = logging.getLogger(__name__)

RELEASE_TIMEOUT_SECONDS = 3.0


async def run(settings: ControllerSettings, stop: asyncio.Event) -> None:
    """Runs a controller until `stop` is set.

    Raises OSError when the port is taken, and ValueError when settings do not fit together or a file (policy, delays)
    cannot be used at start.
    """
    parts = ControllerParts(settings)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(parts.store.close)
        for clients in (parts.followed_sources, parts.client, parts.lease_client, parts.health_client):
            await stack.enter_async_context(clients)
        if parts.device_health:
            await stack.enter_async_context(parts.device_health)
        stack.callback(parts.plugins.close)
        await stack.enter_async_context(serve(create_app(parts), *settings.listen))
        log.info(
            "serving %s on port %d",
            "the dry run's /plan" if settings.dry_run else "metrics, health and /plan",
            settings.listen[1],
        )
        try:
            await run_tasks(parts.loops(), stop)
        finally:
            if parts.leader_elector:  # The next leader need not wait for the Lease to expire.
                await finish_within(RELEASE_TIMEOUT_SECONDS, parts.leader_elector.release(), (ApiError,))
    log.info("controller stopped")


def create_app(parts: ControllerParts) -> web.Application:
    """Builds the application. A request reads memory only."""

    def healthz() -> Health:
        stalled = parts.keeper_loops.stalled()
        return good_unless(f"stalled: {', '.join(stalled)}" if stalled else "")

    def readyz() -> Health:
        return good_unless("\n".join(parts.not_ready_reasons()))

    async def plan(_: web.Request) -> web.Response:
        return web.json_response(text=msgspec.json.format(msgspec.json.encode(parts.page())).decode() + "\n")

    app = create_ops_app(create_registry(parts.families), healthz, readyz)
    app.router.add_get("/plan", plan)
    return app
