"""Executes recovery: publishes the state that extenders follow, taints dead nodes, deletes pods and releases room.

What a plan says is done only after the state that it comes with is written: a spent budget is never forgotten, and
both extenders refuse a node before anything of it is made again elsewhere.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs
from prometheus_client.core import Metric

from controller.backup_keeper import BackupKeeper
from controller.keeper import MOVE_HOLD_PREFIX, Actions, HealedCluster, Keeper, Tools
from controller.moves import Replacement
from leadsman.cluster.model import Cluster
from leadsman.kube.errors import NotFound
from leadsman.kube.objects import IdentifiedObject, ObjectReference
from leadsman.kube.resources import NODES, PODS
from leadsman.planning.recovery_plan import (
    UNREACHABLE_TAINT,
    DeletePod,
    RecoveryAction,
    RecoveryPlan,
    TaintNode,
    UntaintNode,
    plan_recovery,
    steady,
)
from leadsman.published.documents import DocumentTooLarge
from leadsman.published.self_healing import LastRoundTrips, RecoveryState, SelfHealingState
from leadsman.runtime.scrape import counter, gauge

_log = logging.getLogger(__name__)


class _NodeSpec(Struct, frozen=True):
    taints: tuple[dict[str, Any], ...] = ()


class _Node(IdentifiedObject, frozen=True):
    spec: _NodeSpec = _NodeSpec()


class NodeRecovery(Keeper):
    """Plans recovery, publishes the state if it changed, and then acts.

    replacement: knows the room that moves of pods keep, which is published with the rest; None: no pod is moved.
    plan: the last one; None before the first.
    """

    name = "recover from dead nodes"
    problem_texts = (
        "controller cannot publish the state of self-healing; it does nothing about dead nodes until it can",
        "controller publishes the state of self-healing again",
    )

    def __init__(
        self, tools: Tools, healed: HealedCluster, backups: BackupKeeper, replacement: Replacement | None = None
    ) -> None:
        super().__init__(tools)
        self.plan: RecoveryPlan | None = None
        self._deleted: set[str] = set()
        self._healed, self._backups, self._replacement = healed, backups, replacement
        self.actions = Actions(
            _log,
            "controller cannot recover from a dead node; it tries again",
            "controller recovers from dead nodes again",
        )

    def forget(self) -> None:
        self.fail()
        self.plan = None

    def fail(self) -> None:
        self._healed.published.forget()

    @property
    def state(self) -> RecoveryState:
        """Returns what is known now; nothing before it was read."""
        published = self._healed.published.value
        return published.recovery if published else RecoveryState()

    async def keep(self) -> None:
        cluster = self._healed.current
        if cluster is None or not self._healed.verdicts():
            return
        before = await self._healed.published.read()
        plan = self._plan_now(cluster, before.recovery)
        await self._publish(self._published(plan, before), before)
        self._tell(before.recovery, plan, cluster)
        self.plan = plan
        self._deleted.intersection_update(cluster.pods)
        await self.actions.carry_out(plan.actions, self._act)

    def page(self) -> Mapping[str, Any]:
        """Shows refused nodes, what was done about dead ones, and what is withheld."""
        return {**msgspec.to_builtins(self.state, enc_hook=dict), "stays": dict(self.plan.stays) if self.plan else {}}

    def families(self) -> Iterator[Metric]:
        state = self.state
        yield gauge(
            "leadsman_withheld_failover",
            "1 for each dead node about which nothing is done, with the reason.",
            dict.fromkeys(state.withheld.items(), 1.0),
            "node",
            "reason",
        )
        yield gauge(
            "leadsman_failover_step_seconds",
            "Seconds from the first sign of a node's death to a step of its failover, until the node is back.",
            {(node, step): seconds for node, dead in state.dead.items() for step, seconds in dead.steps.items()},
            "node",
            "step",
        )
        yield counter(
            "leadsman_recovery_actions",
            "Actions on dead nodes, by what and result.",
            {(DeletePod.__name__, "done"): 0, **self.actions.results},  # from 0, or an alert misses the first
            "action",
            "result",
        )

    def _plan_now(self, cluster: Cluster, state: RecoveryState) -> RecoveryPlan:
        own_holds = tuple(hold for hold in state.holds if not hold.pod_uid.startswith(MOVE_HOLD_PREFIX))
        state = structs.replace(state, holds=own_holds)
        now, now_unix = self.tools.clock(), self.tools.wall_clock()
        verdicts = self._healed.verdicts().items()
        nodes = {name: structs.replace(each, timeline=each.timeline.shifted(now_unix - now)) for name, each in verdicts}
        return plan_recovery(nodes, cluster, self._backups.coverage, state, self._healed.settings.budget, now_unix)

    def _published(self, plan: RecoveryPlan, before: SelfHealingState) -> SelfHealingState:
        moves = self._replacement.holds if self._replacement else ()
        if moves is None:  # they are not read yet, and a new pod must not lose its room because a controller started
            moves = tuple(hold for hold in before.recovery.holds if hold.pod_uid.startswith(MOVE_HOLD_PREFIX))
        memory = self._backups.memory
        round_trips: dict[str, dict[str, float]] = {}
        owners: dict[str, set[str]] = {}
        for backup in memory.pods.values():
            owners.setdefault(backup.node, set()).add(backup.owner_uid)
            for reference, rtt_ms in backup.rtt_ms.items():
                if reference in plan.state.refused:
                    round_trips.setdefault(reference, {})[backup.node] = rtt_ms
        last = {node: LastRoundTrips(memory.measured_at, rtt_ms) for node, rtt_ms in round_trips.items()}
        if not memory.measured_at:  # The keeper of backups has not read its own yet.
            last, owners = (
                dict(before.last_round_trips),
                {node: set(uids) for node, uids in before.backup_owners.items()},
            )
        for node, known in before.last_round_trips.items():
            if node in last and known.rtt_ms == last[node].rtt_ms:
                last[node] = known  # They were measured before it fell, and no later.
        return SelfHealingState(
            structs.replace(plan.state, holds=(*plan.state.holds, *moves)),
            self.tools.wall_clock(),
            last,
            {node: tuple(sorted(uids)) for node, uids in sorted(owners.items())},
        )

    async def _publish(self, state: SelfHealingState, before: SelfHealingState) -> None:
        """Writes it if it is new, without the owners of backups where it is too large: the rest matters more."""
        smaller = structs.replace(state, backup_owners={})
        for fitting in (state, smaller):
            if structs.replace(fitting, published_at=before.published_at) == before:
                break
            try:
                await self._healed.published.write(fitting)
                break
            except DocumentTooLarge:
                if fitting is smaller:
                    raise

    async def _act(self, action: RecoveryAction) -> str:
        match action:
            case TaintNode():
                await self._set_taint(action.node, action.uid, present=True)
                _log.warning("tainted node %s as unreachable: %s", action.node, action.reason)
            case UntaintNode():
                await self._set_taint(action.node, action.uid, present=False)
                _log.info("removed the taint of node %s: %s", action.node, action.reason)
            case DeletePod() if action.uid in self._deleted:
                return "unseen"
            case DeletePod():
                await self.tools.client.delete(PODS.path(action.namespace, action.name), action.uid)
                self._deleted.add(action.uid)
                await self._backups.release(action.backup, action.requests)
                _log.warning("deleted pod %s/%s: %s", action.namespace, action.name, action.reason)
                about = ObjectReference("Pod", action.namespace, action.name, action.uid)
                self.tools.tell(about, "FailedOver", action.reason, "Delete", warning=True)
        return "done"

    async def _set_taint(self, name: str, uid: str, *, present: bool) -> None:
        """Raises Conflict when the node changed meanwhile: taints are one list, and the others' are kept."""
        node = await self.tools.client.get(NODES.path("", name), _Node)
        if node.metadata.uid != uid:
            raise NotFound(f"node {name} is another one by now")
        taints = [taint for taint in node.spec.taints if taint.get("key") != UNREACHABLE_TAINT]
        if present:
            taints.append({"key": UNREACHABLE_TAINT, "effect": "NoSchedule"})
        metadata = {"resourceVersion": node.metadata.resource_version}
        await self.tools.client.patch(NODES.path("", name), {"metadata": metadata, "spec": {"taints": taints}})

    def _tell(self, before: RecoveryState, plan: RecoveryPlan, cluster: Cluster) -> None:
        """Writes Events for what is withheld, once for each reason."""
        for name, reason in plan.state.withheld.items():
            if before.withheld.get(name) != reason:
                _log.warning("node %s is dead, but its pods stay there: %s", name, reason)
                node = cluster.nodes.get(name)
                about = ObjectReference("Node", "", name, node.uid if node else "")
                self.tools.tell(about, "FailoverWithheld", reason, "Withhold", warning=True)
        already = self.plan.stays if self.plan else {}
        for uid, reason in steady(plan.stays, already).items():
            if already.get(uid) != reason and uid in cluster.pods:
                pod = cluster.pods[uid]
                about = ObjectReference("Pod", pod.namespace, pod.name, uid)
                note = f"its node {pod.node} is dead, and it stays: {reason}"
                self.tools.tell(about, "NotFailedOver", note, "Withhold", warning=True)
