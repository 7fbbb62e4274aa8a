"""Executes recovery: publishes the state that extenders follow, taints dead nodes, releases room and deletes pods.

What a plan says is done only after the state that it comes with is written: a spent budget is never forgotten, and
both extenders refuse a node before anything of it is made again elsewhere.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controller.backup_keeper import BackupKeeper
from controller.config_maps import DocumentObject
from controller.event_recorder import EventRecorder
from controller.replacement import MOVE_HOLD_PREFIX
from leadsman.cluster.model import Cluster
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, NotFound
from leadsman.kube.objects import ObjectReference
from leadsman.kube.resources import NODES, PODS
from leadsman.planning.backups.coverage import CoverageState
from leadsman.planning.failover.model import NodeHealth, NodeVerdict, Truth
from leadsman.planning.recovery.model import (
    UNREACHABLE_TAINT,
    DeletePod,
    NodeCondition,
    ObservedNode,
    RecoveryAction,
    RecoveryBudget,
    RecoveryPlan,
    ReleaseRoom,
    TaintNode,
    UntaintNode,
)
from leadsman.planning.recovery.plan import BackupsByPod, plan_recovery
from leadsman.published.documents import BadDocument, DocumentTooLarge
from leadsman.published.self_healing import Hold, LastRoundTrips, RecoveryState, SelfHealingState
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)


class _NodeSpec(Struct, frozen=True):
    taints: tuple[dict[str, Any], ...] = ()


class _NodeMetadata(Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Node(Struct, frozen=True):
    metadata: _NodeMetadata
    spec: _NodeSpec = _NodeSpec()


class NodeRecovery:
    """Call `sync` in turn while this replica leads, and `reset` while it does not.

    verdicts: on every node, times in monotonic seconds of `clock`.
    move_holds: room that moves of pods keep, which is published with the rest; None: it is not known yet, and what is
        published stays: a new pod must not lose its room because the controller was started again.
    budget: FAILOVER_OFF: nothing is tainted or deleted; dead and suspect nodes are still refused.
    plan: the last one; None before the first.
    results: (action, result) → how often; result: done, gone, conflict or failed.
    """

    def __init__(
        self,
        client: ApiClient,
        published: DocumentObject[SelfHealingState],
        cluster: Callable[[], Cluster | None],
        verdicts: Callable[[], Mapping[str, NodeVerdict]],
        backups: BackupKeeper,
        recorder: EventRecorder,
        is_leader: Callable[[], bool],
        budget: RecoveryBudget,
        *,
        move_holds: Callable[[], tuple[Hold, ...] | None] = tuple,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan: RecoveryPlan | None = None
        self.results: Counter[tuple[str, str]] = Counter()
        self._client, self._object, self._cluster, self._verdicts = client, published, cluster, verdicts
        self._backups, self._recorder, self._is_leader, self._budget = backups, recorder, is_leader, budget
        self._clock, self._wall_clock, self._move_holds = clock, wall_clock, move_holds
        self._state: SelfHealingState | None = None
        self._problem = ProblemLog(
            _log,
            "controller cannot publish the state of self-healing; it does nothing about dead nodes until it can",
            "controller publishes the state of self-healing again",
        )
        self._act_problem = ProblemLog(
            _log,
            "controller cannot recover from a dead node; it tries again",
            "controller recovers from dead nodes again",
        )

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self._state, self.plan = None, None

    @property
    def state(self) -> RecoveryState:
        """What is known now; nothing before it was read."""
        return self._state.recovery if self._state else RecoveryState()

    async def sync(self) -> None:
        """Plans, publishes the state if it changed, and then acts."""
        cluster = self._cluster()
        if cluster is None or not self._verdicts():
            return
        try:
            before = self._state = self._state or await self._object.read() or SelfHealingState()
            plan = self._plan_now(cluster, before.recovery)
            state = self._published(plan, before.recovery)
            if structs.replace(state, published_at=before.published_at) != before:
                if not self._is_leader():
                    return
                await self._write(state)
                self._state = state
        except (ApiError, BadDocument) as error:
            self._state = None  # read again: another replica may have written
            self._problem.report(error)
            return
        self._problem.clear()
        self._tell(before.recovery, plan, cluster)
        self.plan = plan
        await self._execute(plan.actions)

    def page(self) -> dict[str, Any]:
        """The state as JSON values: refused nodes, what was done about dead ones, what is withheld."""
        return {**msgspec.to_builtins(self.state, enc_hook=dict), "stays": dict(self.plan.stays) if self.plan else {}}

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        state = self.state
        yield GaugeMetricFamily(
            "leadsman_nodes_refused", "Dead and suspect nodes that bounded pods are kept off.", len(state.refused)
        )
        yield GaugeMetricFamily(
            "leadsman_failovers_withheld", "Dead nodes about which nothing is done.", len(state.withheld)
        )
        yield GaugeMetricFamily(
            "leadsman_failover_budget_spent", "Nodes failed over within the window of the budget.", len(state.spent)
        )
        withheld = GaugeMetricFamily(
            "leadsman_withheld_failover",
            "1 for each dead node about which nothing is done, with the reason.",
            labels=["node", "reason"],
        )
        for node, reason in state.withheld.items():
            withheld.add_metric([node, reason], 1)
        yield withheld
        steps = GaugeMetricFamily(
            "leadsman_failover_step_seconds",
            "Seconds from the first sign of a node's death to a step of its failover, until the node is back.",
            labels=["node", "step"],
        )
        for node, dead in state.dead.items():
            for step, seconds in dead.steps.items():
                steps.add_metric([node, step], seconds)
        yield steps
        actions = CounterMetricFamily(
            "leadsman_recovery_actions", "Actions on dead nodes, by what and result.", labels=["action", "result"]
        )
        for (action, result), count in self.results.items():
            actions.add_metric([action, result], count)
        yield actions

    def _plan_now(self, cluster: Cluster, state: RecoveryState) -> RecoveryPlan:
        own_holds = tuple(hold for hold in state.holds if not hold.pod_uid.startswith(MOVE_HOLD_PREFIX))
        state = structs.replace(state, holds=own_holds)
        now, now_unix = self._clock(), self._wall_clock()
        nodes = {name: _observed(verdict, now_unix - now) for name, verdict in self._verdicts().items()}
        coverage = self._backups.status.coverage
        backups = BackupsByPod(
            {uid: each.node for uid, each in coverage.items() if each.state is CoverageState.COVERED},
            {uid: each.reason for uid, each in coverage.items() if each.state is not CoverageState.COVERED},
        )
        return plan_recovery(nodes, cluster, backups, state, self._budget, now_unix)

    def _published(self, plan: RecoveryPlan, before: RecoveryState) -> SelfHealingState:
        moves = self._move_holds()
        if moves is None:
            moves = tuple(hold for hold in before.holds if hold.pod_uid.startswith(MOVE_HOLD_PREFIX))
        memory = self._backups.status.memory
        round_trips: dict[str, dict[str, float]] = {}
        owners: dict[str, set[str]] = {}
        for backup in memory.pods.values():
            owners.setdefault(backup.node, set()).add(backup.owner_uid)
            for reference, rtt_ms in backup.rtt_ms.items():
                if reference in plan.state.refused:
                    round_trips.setdefault(reference, {})[backup.node] = rtt_ms
        return SelfHealingState(
            structs.replace(plan.state, holds=(*plan.state.holds, *moves)),
            self._wall_clock(),
            {node: LastRoundTrips(memory.measured_at, rtt_ms) for node, rtt_ms in round_trips.items()},
            {node: tuple(sorted(uids)) for node, uids in sorted(owners.items())},
        )

    async def _write(self, state: SelfHealingState) -> None:
        """Without the owners of backups where it is too large: the rest matters more."""
        try:
            await self._object.write(state)
        except DocumentTooLarge:
            await self._object.write(structs.replace(state, backup_owners={}))

    async def _execute(self, actions: Iterable[RecoveryAction]) -> None:
        for action in actions:
            if not self._is_leader():
                return
            verb = type(action).__name__
            try:
                await self._execute_one(action)
            except NotFound:
                self.results[verb, "gone"] += 1
            except Conflict:
                self.results[verb, "conflict"] += 1
            except ApiError as error:
                self.results[verb, "failed"] += 1
                self._act_problem.report(error)
                return
            else:
                self.results[verb, "done"] += 1
        self._act_problem.clear()

    async def _execute_one(self, action: RecoveryAction) -> None:
        match action:
            case TaintNode():
                await self._set_taint(action.node, action.uid, present=True)
                _log.warning("tainted node %s as unreachable: %s", action.node, action.reason)
            case UntaintNode():
                await self._set_taint(action.node, action.uid, present=False)
                _log.info("removed the taint of node %s: %s", action.node, action.reason)
            case ReleaseRoom():
                await self._backups.release(action)
            case DeletePod():
                await self._client.delete(PODS.path(action.namespace, action.name), action.uid)
                _log.warning("deleted pod %s/%s: %s", action.namespace, action.name, action.reason)
                about = ObjectReference("Pod", action.namespace, action.name, action.uid)
                self._recorder.record(about, "FailedOver", action.reason, "Delete", warning=True)

    async def _set_taint(self, name: str, uid: str, *, present: bool) -> None:
        """Conflict when the node changed meanwhile: taints are one list, and the others' are kept."""
        node = await self._client.get(NODES.path("", name), _Node)
        if node.metadata.uid != uid:
            raise NotFound(f"node {name} is another one by now")
        taints = [taint for taint in node.spec.taints if taint.get("key") != UNREACHABLE_TAINT]
        if present:
            taints.append({"key": UNREACHABLE_TAINT, "effect": "NoSchedule"})
        metadata = {"resourceVersion": node.metadata.resource_version}
        await self._client.patch(NODES.path("", name), {"metadata": metadata, "spec": {"taints": taints}})

    def _tell(self, before: RecoveryState, plan: RecoveryPlan, cluster: Cluster) -> None:
        """Events for what is withheld, once for each reason."""
        for name, reason in plan.state.withheld.items():
            if before.withheld.get(name) != reason:
                _log.warning("node %s is dead and its pods stay: %s", name, reason)
                node = cluster.nodes.get(name)
                about = ObjectReference("Node", "", name, node.uid if node else "")
                self._recorder.record(about, "FailoverWithheld", reason, "Withhold", warning=True)
        already = self.plan.stays if self.plan else {}
        for uid, reason in plan.stays.items():
            if already.get(uid) != reason and uid in cluster.pods:
                pod = cluster.pods[uid]
                about = ObjectReference("Pod", pod.namespace, pod.name, uid)
                note = f"its node {pod.node} is dead, and it stays: {reason}"
                self._recorder.record(about, "NotFailedOver", note, "Withhold", warning=True)


_CONDITIONS = {
    NodeHealth.HEALTHY: NodeCondition.HEALTHY,
    NodeHealth.SUSPECT: NodeCondition.SUSPECT,
    NodeHealth.PARTITION: NodeCondition.SUSPECT,
    NodeHealth.DEAD: NodeCondition.DEAD,
}


def _observed(verdict: NodeVerdict, unix_offset: float) -> ObservedNode:
    """The verdict in the words of recovery. unix_offset: from monotonic to Unix seconds."""
    times = (verdict.timeline.first_lost_at, verdict.timeline.suspect_at, verdict.timeline.dead_at)
    first_lost_at, suspect_at, dead_at = (None if at is None else at + unix_offset for at in times)
    fresh = verdict.signals.heartbeat.truth is Truth.FALSE
    return ObservedNode(_CONDITIONS[verdict.state], verdict.message, fresh, first_lost_at, suspect_at, dead_at)
