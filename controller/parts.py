"""What a controller consists of, wired together: who watches, who plans, who writes, in which step."""

import time
from collections.abc import Coroutine, Iterator
from typing import Any

from prometheus_client.core import Metric

from controller.bind_failures import BindFailureCounter
from controller.device_health import DeviceHealthKeeper, DeviceHealthMode
from controller.event_recorder import EventRecorder
from controller.label_reconciler import LabelReconciler
from controller.missing_policies import MissingPolicyReporter
from controller.node_cache import NodeCache
from controller.node_conditions import NodeConditions
from controller.node_health import NodeHealthMode, NodeHealthReporter
from controller.node_leases import NodeLeases
from controller.node_patcher import NodePatcher
from controller.policy_status import PolicyStatusWriter
from controller.promised_inputs import PromisedInputs
from controller.requeuer import Requeuer
from controller.self_healing import SelfHealing
from controller.settings import ControllerSettings
from controller.steps import Step, StepRunner
from controller.unchecked_pods import UncheckedPodReporter
from controller.waiting_pods import WaitingPodReporter
from leadsman.kube.client import ApiClient
from leadsman.kube.leader_election import LeaderElector
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import POLICY_LABEL
from leadsman.kube.objects import PartialObjectMetadata, PendingPod
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES, PODS
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.workload_follower import UNFINISHED_PODS
from leadsman.sources.telemetry.tas_policies import TasPolicyFollower
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
"""Of a call about a node's health: a later answer is worth less than the next judgement."""


class ControllerParts:
    """Everything that a controller consists of. A part that the settings leave out is None."""

    def __init__(self, settings: ControllerSettings) -> None:
        self.settings = settings
        self.store = EtcdStore(settings.etcd)
        api = settings.telemetry.api
        self.followed_sources = FollowedSources(
            self.store,
            SourceSettings(
                settings.policy, api, settings.delays, settings.telemetry, devices=settings.devices, claims=False
            ),
        )
        self.client = client = ApiClient(api, may_write=self.is_leader)
        self.lease_client = ApiClient(api, deadline_seconds=settings.timing.call_timeout_seconds)
        self.nodes_reflector = Reflector(client, ListOptions(NODES, metadata_only=True), PartialObjectMetadata)
        self.pending_pods_reflector = Reflector(
            client, ListOptions(PODS, field_selector="spec.nodeName=,status.phase=Pending"), PendingPod
        )
        labelled = ListOptions(PODS, label_selector=POLICY_LABEL, field_selector=UNFINISHED_PODS, metadata_only=True)
        self.policy_pods_reflector = Reflector(client, labelled, PartialObjectMetadata)
        self.node_cache = NodeCache(self.nodes_reflector)
        self.current_inputs = self.followed_sources.input_sources.current_inputs
        self._wire_writers()
        self._wire_reporters()
        self._wire_planners()
        self.health_client = ApiClient(api, deadline_seconds=NODE_HEALTH_DEADLINE_SECONDS, may_write=self.is_leader)
        self.node_leases = NodeLeases(
            self.health_client, TokenBucket(LEASE_READS_PER_SECOND, LEASE_READS_BURST), time.monotonic
        )
        self.node_health = self._node_health() if settings.node_health.mode is not NodeHealthMode.OFF else None
        self.self_healing = self._self_healing() if settings.self_healing.enabled else None
        self.device_health = self._device_health() if settings.device_health is not DeviceHealthMode.OFF else None
        self.step_runner = StepRunner(list(self._steps()), self.is_leader)

    def _node_health(self) -> NodeHealthReporter:
        conditions = None
        if self.event_recorder:
            rate = TokenBucket(CONDITION_PATCHES_PER_SECOND, CONDITION_PATCHES_BURST)
            conditions = NodeConditions(self.health_client, self.event_recorder, rate, self.node_cache.uid)
        return NodeHealthReporter(
            lambda: self.node_cache.current,
            lambda: self.current_inputs().snapshot,
            self.node_leases,
            conditions,
            self.settings.node_health.rules,
        )

    def _self_healing(self) -> SelfHealing:
        health = self.node_health
        return SelfHealing(
            self.client,
            self.settings.self_healing,
            self.current_inputs,
            self.event_recorder,
            self.is_leader,
            lambda: health.verdicts if health else {},
        )

    def _device_health(self) -> DeviceHealthKeeper:
        acts = self.settings.device_health is DeviceHealthMode.ACT
        return DeviceHealthKeeper(
            self.client,
            self.settings.telemetry,
            self.node_cache,
            lambda: self.followed_sources.policy_file.current.devices.health,
            self.event_recorder if acts else None,
            self.is_leader,
        )

    def _wire_writers(self) -> None:
        """Wires what writes; a dry run has none of it."""
        self.leader_elector: LeaderElector | None = None
        self.event_recorder: EventRecorder | None = None
        self.node_patcher: NodePatcher | None = None
        settings = self.settings
        if settings.dry_run:
            return
        self.leader_elector = LeaderElector(self.lease_client, *settings.lease, settings.identity, settings.timing)
        event_rate = TokenBucket(EVENTS_PER_SECOND, EVENTS_BURST)
        self.event_recorder = EventRecorder(self.client, event_rate, settings.identity)
        patch_rate = TokenBucket(settings.patches_per_second, PATCHES_BURST)
        self.node_patcher = NodePatcher(self.client, self.node_cache, patch_rate, self.is_leader)

    def _wire_reporters(self) -> None:
        """Wires what says something of pods and policies: in Events, where there is a recorder, and in metrics."""
        self.policy_status: PolicyStatusWriter | None = None
        self.missing_policies: MissingPolicyReporter | None = None
        if self.event_recorder:
            self.policy_status = PolicyStatusWriter(self.client, self.event_recorder, time.monotonic)
            event_rate = TokenBucket(POLICY_EVENTS_PER_SECOND, POLICY_EVENTS_BURST)
            self.missing_policies = MissingPolicyReporter(self.event_recorder, event_rate, time.monotonic)
        self.bind_failures = BindFailureCounter(
            self.client, TokenBucket(EVENT_READS_PER_SECOND, EVENT_READS_BURST), time.monotonic
        )
        self.unchecked_pods = UncheckedPodReporter(
            self.client, self.current_inputs, self.event_recorder, tells_placements=self.settings.placement_events
        )
        self.waiting_pods = WaitingPodReporter(
            lambda: self.pending_pods_reflector.current,
            lambda: list(self.node_cache.current),
            self.current_inputs,
            self.event_recorder,
            TokenBucket(WAITING_EVENTS_PER_SECOND, WAITING_EVENTS_BURST),
        )

    def _wire_planners(self) -> None:
        """Wires what plans labels and requeues."""
        self.label_reconciler = LabelReconciler(
            self.node_cache, self.current_inputs, self.node_patcher, self.event_recorder, self.settings.limits
        )
        self.requeuer = Requeuer(
            None if self.settings.dry_run else self.client,
            lambda: self.pending_pods_reflector.current,
            lambda: list(self.node_cache.current),
            PromisedInputs(self.store, self.followed_sources.input_sources).current,
            TokenBucket(TOUCHES_PER_SECOND, 1),
        )

    def is_leader(self) -> bool:
        return self.leader_elector is None or self.leader_elector.is_leader

    @property
    def policies(self) -> TasPolicyFollower:
        assert self.followed_sources.telemetry is not None, "Settings always have it"
        return self.followed_sources.telemetry.policies

    def not_ready_reasons(self) -> list[str]:
        """What is not listed yet and keeps plans from being made; [] when nothing is missing.

        Where TASPolicies are not served, the component telemetry is not installed, and no plan waits for them.
        """
        reflectors: list[Reflector[Any]] = [self.nodes_reflector, self.pending_pods_reflector, self.policies.reflector]
        missing = [each for each in reflectors if each.is_served and not each.loaded.is_set()]
        return [
            f"{each.list_options.resource.plural} are not listed: {each.problem.text or 'no answer yet'}"
            for each in missing
        ]

    async def _report_missing_policies(self) -> None:
        if self.missing_policies:
            pods = [pod.metadata for pod in self.policy_pods_reflector.current.values()]
            self.missing_policies.sync(pods, self.policies.current)

    def families(self) -> Iterator[Metric]:
        yield from self.followed_sources.families()
        if self.node_health:
            yield from self.node_health.families()
        if self.self_healing:
            yield from self.self_healing.families()
        if self.device_health:
            yield from self.device_health.families()
        yield from self.bind_failures.families()
        yield from self.unchecked_pods.families()
        yield from self.waiting_pods.families()
        if self.missing_policies:
            yield from self.missing_policies.families()

    def _steps(self) -> Iterator[Step]:
        nodes, pending = self.nodes_reflector, self.pending_pods_reflector
        bound, policy_pods = self.unchecked_pods.reflector, self.policy_pods_reflector
        labels, requeuer, unchecked = self.label_reconciler, self.requeuer, self.unchecked_pods
        yield Step("reconcile labels", labels.reconcile, labels.reset, [nodes])
        yield Step("requeue pods", requeuer.sync, requeuer.reset, [nodes, pending])
        yield Step("count bind failures", lambda: self.bind_failures.sync(pending.current.values()), needs=[pending])
        yield Step("report pods that were not checked", unchecked.sync, unchecked.reset, [bound])
        yield Step("report waiting pods", self.waiting_pods.sync, self.waiting_pods.reset, [nodes, pending])
        if status := self.policy_status:
            yield Step("write status of policies", lambda: status.sync(self.policies.objects, self.current_inputs()))
        if missing := self.missing_policies:
            yield Step("report missing policies", self._report_missing_policies, missing.reset, [policy_pods])
        if health := self.node_health:
            yield Step("judge nodes", health.judge, needs=[nodes], on_all_replicas=True)
            yield Step("publish node health", health.publish, health.reset)
        if devices := self.device_health:
            yield Step("keep device health", devices.keep_device_health, needs=[nodes], on_all_replicas=True)
        if self.self_healing:
            yield from self.self_healing.steps()

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        optional = {"elect a leader": self.leader_elector, "write Events": self.event_recorder}
        return {
            **dict(self.followed_sources.tasks()),
            "watch nodes": self.nodes_reflector.run(),
            "watch pending pods": self.pending_pods_reflector.run(),
            "watch bound pods": self.unchecked_pods.reflector.run(),
            "watch pods that name a policy": self.policy_pods_reflector.run(),
            **self.step_runner.loops(),
            **{name: part.run() for name, part in optional.items() if part is not None},
            **(self.self_healing.loops() if self.self_healing else {}),
            **(self.device_health.loops() if self.device_health else {}),
            **({"watch node Leases": self.node_leases.reflector.run()} if self.node_health else {}),
        }
