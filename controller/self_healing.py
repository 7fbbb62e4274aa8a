"""Wires self-healing: the cluster, backups and their placeholders, recovery from dead nodes, and re-placement."""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Set
from typing import Any

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controller.backup_keeper import BackupKeeper
from controller.config_maps import DocumentObject
from controller.event_recorder import EventRecorder
from controller.image_keepers import ImageKeepers
from controller.node_recovery import NodeRecovery
from controller.placeholder_pod import PlaceholderSettings
from controller.placeholder_writer import PlaceholderWriter
from controller.rebalancer import Rebalancer
from controller.replacement import Replacement, move_hold_uid
from controller.steps import Step
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.client import ApiClient
from leadsman.planning.backups.coverage import CoverageState
from leadsman.planning.backups.model import BackupSettings
from leadsman.planning.backups.placeholders import held_by, placeholders_by_node
from leadsman.planning.backups.warm_images import image_keepers
from leadsman.planning.failover.model import NodeHealth, NodeVerdict
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.rebalance.planner import RebalanceSettings
from leadsman.planning.recovery.model import FAILOVER_OFF, RecoveryBudget
from leadsman.planning.replacement.model import ReplacementSettings
from leadsman.published.backups import BACKUPS
from leadsman.published.move_plan import MOVE_PLAN
from leadsman.published.self_healing import SELF_HEALING
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.cluster_follower import ClusterFollower

PLACEHOLDER_WRITES_PER_SECOND, PLACEHOLDER_WRITES_BURST = 20.0, 50

MAX_PODS_SHOWN = 200


class SelfHealingSettings(Struct, frozen=True):
    """What an operator chooses.

    enabled: whether bounded pods have backups, and bounded pods are kept off dead and suspect nodes.
    budget: how much is done about dead nodes; FAILOVER_OFF: nothing.
    replacement: when pods are moved to other nodes while all nodes live; None: never.
    move_plans: whether plans that are handed over are carried out, which needs `replacement`; None: they are not.
    rebalance: when pods are moved to nodes that serve them better, which needs `move_plans`; None: never.
    warm_images: images that each backup node keeps for the pods that would go there, at most; 0: none.
    namespace: Leadsman's own, where the state is published.
    """

    enabled: bool = False
    backups: BackupSettings = BackupSettings()
    placeholders: PlaceholderSettings = PlaceholderSettings()
    budget: RecoveryBudget = FAILOVER_OFF
    replacement: ReplacementSettings | None = None
    move_plans: MovePlanLimits | None = None
    rebalance: RebalanceSettings | None = None
    warm_images: int = 0
    namespace: str = "leadsman"


class SelfHealing:
    """All of it. Run its `loops`, and take its `steps` in turn on every replica.

    recorder: None: a dry run, which plans backups and writes nothing.
    verdicts: on every node, by name.
    """

    def __init__(
        self,
        client: ApiClient,
        settings: SelfHealingSettings,
        inputs: Callable[[], DecisionInputs],
        recorder: EventRecorder | None,
        is_leader: Callable[[], bool],
        verdicts: Callable[[], Mapping[str, NodeVerdict]],
    ) -> None:
        self._client, self._settings, self._inputs, self._is_leader = client, settings, inputs, is_leader
        self._verdicts = verdicts
        self.cluster = ClusterFollower(client)
        rate = TokenBucket(PLACEHOLDER_WRITES_PER_SECOND, PLACEHOLDER_WRITES_BURST)
        self.writer = PlaceholderWriter(client, is_leader, rate, settings.placeholders) if recorder else None
        self.backups = self._backups(recorder)
        self.recovery = self._recovery(recorder) if recorder else None
        self.replacement = self._replacement(settings.replacement, recorder) if settings.replacement else None
        self.rebalancer = (
            self._rebalancer(settings.rebalance, self.replacement)
            if settings.rebalance and self.replacement and recorder
            else None
        )

    def _backups(self, recorder: EventRecorder | None) -> BackupKeeper:
        settings = self._settings
        keepers = ImageKeepers(self._client, self._is_leader, settings.placeholders, settings.warm_images)
        return BackupKeeper(
            self._client,
            lambda: self.cluster.current,
            self._inputs,
            DocumentObject(self._client, settings.namespace, BACKUPS),
            self.writer,
            recorder,
            settings.backups,
            unhealthy=self._unhealthy_nodes,
            holds=lambda: self.recovery.state.holds if self.recovery else (),
            image_keepers=keepers if recorder else None,
        )

    def _recovery(self, recorder: EventRecorder) -> NodeRecovery:
        return NodeRecovery(
            self._client,
            DocumentObject(self._client, self._settings.namespace, SELF_HEALING),
            lambda: self.cluster.current,
            self._verdicts,
            self.backups,
            recorder,
            self._is_leader,
            self._settings.budget,
            move_holds=lambda: self.replacement.holds if self.replacement else (),
        )

    def _replacement(self, replacement: ReplacementSettings, recorder: EventRecorder | None) -> Replacement:
        namespace, limits = self._settings.namespace, self._settings.move_plans
        return Replacement(
            self._client,
            namespace,
            lambda: self.cluster.current,
            self._inputs,
            self._unhealthy_nodes,
            recorder,
            self._is_leader,
            replacement,
            self._settings.placeholders,
            publishes_hold=self._publishes_hold,
            move_plan=(DocumentObject(self._client, namespace, MOVE_PLAN), limits) if limits else None,
        )

    def _rebalancer(self, rebalance: RebalanceSettings, replacement: Replacement) -> Rebalancer:
        return Rebalancer(
            DocumentObject(self._client, self._settings.namespace, MOVE_PLAN),
            lambda: self.cluster.current,
            self._inputs,
            self._unhealthy_nodes,
            replacement,
            rebalance,
            self._settings.backups,
        )

    def steps(self) -> Iterator[Step]:
        yield Step("keep backups", self.backups.sync, self.backups.reset)
        if self.recovery:
            yield Step("recover from dead nodes", self.recovery.sync, self.recovery.reset)
        if self.replacement:
            yield Step("replace pods", self.replacement.sync, self.replacement.reset)
        if self.rebalancer:
            yield Step("rebalance", self.rebalancer.sync)

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What runs beside the steps."""
        return {"follow the cluster": self.cluster.run()}

    def page(self) -> dict[str, Any]:
        """What is planned and done, as JSON values."""
        cluster, status = self.cluster.current, self.backups.status
        if cluster is None:
            return {"none": f"the cluster is not listed yet: {self.cluster.problem or 'no answer yet'}"}
        named = ((cluster.pods[uid], each) for uid, each in status.coverage.items() if uid in cluster.pods)
        troubled_first = sorted(named, key=lambda each: (each[1].state is CoverageState.COVERED, each[0].name))
        return {
            "coverage": {state.value: count for state, count in self._coverage_counts().items()},
            "pods": {
                f"{pod.namespace}/{pod.name}": {
                    "node": pod.node,
                    "coverage": each.state.value,
                    "backup": each.node or None,
                    "reason": each.reason or None,
                }
                for pod, each in troubled_first[:MAX_PODS_SHOWN]
            },
            **({"recovery": self.recovery.page()} if self.recovery else {}),
            **({"replacement": self.replacement.page()} if self.replacement else {}),
            **({"rebalancing": self.rebalancer.page()} if self.rebalancer else {}),
        }

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        pods = GaugeMetricFamily(
            "leadsman_bounded_pods", "Pods with a delay bound that are to have a backup.", labels=["coverage"]
        )
        for state, count in self._coverage_counts().items():
            pods.add_metric([state.value], count)
        yield pods
        yield GaugeMetricFamily(
            "leadsman_backup_plan_seconds", "Seconds that planning backups took last.", self.backups.plan_seconds
        )
        yield CounterMetricFamily(
            "leadsman_placeholders_lost",
            "Placeholders that were evicted, preempted or deleted by others.",
            self.backups.lost,
        )
        yield from self._placeholder_families()
        if self.recovery:
            yield from self.recovery.families()
        if self.replacement:
            yield from self.replacement.families()
        if self.rebalancer:
            yield from self.rebalancer.families()

    def _placeholder_families(self) -> Iterator[Metric]:
        cluster = self.cluster.current
        if cluster is not None:
            placeholders = [pod for pods in placeholders_by_node(cluster).values() for pod in pods]
            bound = sum(bool(pod.node) for pod in placeholders)
            count = GaugeMetricFamily(
                "leadsman_placeholders", "Placeholders, by whether they hold room.", labels=["state"]
            )
            count.add_metric(["bound"], bound)
            count.add_metric(["waiting"], len(placeholders) - bound)
            yield count
            held = held_by(placeholders)
            yield GaugeMetricFamily(
                "leadsman_placeholders_cpu_cores", "CPU that placeholders hold.", held.cpu_millis / 1000
            )
            yield GaugeMetricFamily(
                "leadsman_placeholders_memory_bytes", "Memory that placeholders hold.", held.memory_bytes
            )
            keepers = list(image_keepers(cluster))
            ready = sum(pod.ready for pod in keepers)
            images = GaugeMetricFamily(
                "leadsman_image_keepers", "Pods that keep images on backup nodes, ready or not.", labels=["state"]
            )
            images.add_metric(["ready"], ready)
            images.add_metric(["waiting"], len(keepers) - ready)
            yield images
        if self.writer:
            writes = CounterMetricFamily(
                "leadsman_placeholder_writes", "Writes of placeholders, by what and result.", labels=["verb", "result"]
            )
            for (verb, result), number in self.writer.results.items():
                writes.add_metric([verb, result], number)
            yield writes

    def _coverage_counts(self) -> dict[CoverageState, int]:
        counts = Counter(each.state for each in self.backups.status.coverage.values())
        return {state: counts[state] for state in CoverageState}

    def _publishes_hold(self, pod_uid: str) -> bool:
        """Whether the state that extenders follow has the holds of this pod's move."""
        holds = self.recovery.state.holds if self.recovery else ()
        return any(hold.pod_uid == move_hold_uid(pod_uid) for hold in holds)

    def _unhealthy_nodes(self) -> Set[str]:
        return {name for name, verdict in self._verdicts().items() if verdict.state is not NodeHealth.HEALTHY}
