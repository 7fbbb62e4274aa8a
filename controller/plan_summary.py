"""Puts the plans of all that a controller does into one summary for people."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from controller.device_health import DeviceHealthKeeper, describe
from controller.label_reconciler import describe_action
from controller.node_recovery import NodeRecovery
from controller.replacement import Replacement
from controller.self_healing import SelfHealing
from leadsman.cluster.model import Cluster
from leadsman.planning.backups.coverage import CoverageState
from leadsman.planning.device_health.model import DeviceAction
from leadsman.planning.labels.model import LabelAction, LabelPlan
from leadsman.planning.recovery.model import DeletePod, ReleaseRoom, TaintNode, UntaintNode
from leadsman.published.moves import Move
from leadsman.published.plan_summary import PlannedAction, PlanSummary, WithheldAction

MAX_LISTED = 200
"""Of actions, and of withheld ones: what a person reads, and far less than 16 MiB."""


class HeldBack(Struct, frozen=True):
    """As WithheldAction, without the time."""

    kind: str
    object: str
    reason: str
    why: str


class PlanPart(Struct, frozen=True):
    """What one of the planners does. unplanned: why it has no plan; "" when it has one."""

    actions: Sequence[PlannedAction] = ()
    withheld: Sequence[HeldBack] = ()
    stopped: Sequence[str] = ()
    unplanned: str = ""


class PlanSummaries:
    """`follow` as a step of the leader, `reset` on other replicas.

    parts: each says what its planner does now.
    """

    def __init__(
        self,
        parts: Sequence[Callable[[], PlanPart]],
        is_leader: Callable[[], bool],
        is_dry_run: bool,
        wall_clock: Callable[[], float],
    ) -> None:
        """wall_clock: Unix seconds."""
        self._parts, self._is_leader, self._is_dry_run, self._wall_clock = parts, is_leader, is_dry_run, wall_clock
        self._since: dict[tuple[str, str], float] = {}

    async def follow(self) -> None:
        """Notes since when each action is withheld."""
        now = self._wall_clock()
        withheld = [(each.kind, each.object) for part in self._parts for each in part().withheld]
        self._since = {key: self._since.get(key, now) for key in withheld}

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self._since = {}

    def current(self) -> PlanSummary:
        """As of now."""
        now, leads = self._wall_clock(), self._is_leader()
        if not leads:
            return PlanSummary(now, False, self._is_dry_run)
        parts = [part() for part in self._parts]
        actions = [each for part in parts for each in part.actions]
        withheld = [
            WithheldAction(
                each.kind, each.object, each.reason, each.why, self._since.get((each.kind, each.object), now)
            )
            for part in parts
            for each in part.withheld
        ]
        return PlanSummary(
            now,
            leads,
            self._is_dry_run,
            actions[:MAX_LISTED],
            sorted(withheld, key=lambda each: each.since)[:MAX_LISTED],
            [text for part in parts for text in part.stopped],
            [part.unplanned for part in parts if part.unplanned],
            max(0, len(actions) - MAX_LISTED) + max(0, len(withheld) - MAX_LISTED),
        )


def label_part(plan: LabelPlan | None) -> PlanPart:
    """Of telemetry policies. plan: None: none was made yet."""
    if plan is None:
        return PlanPart(unplanned="labels: no plan is made yet; nodes and policies must be listed first")
    actions = [PlannedAction("label node", f"node {each.node}", _with_what(each)) for each in plan.actions]
    withheld = [
        HeldBack("label node", f"node {each.action.node}, label {each.action.label}", _with_what(each.action), each.why)
        for each in plan.withheld
    ]
    return PlanPart(actions, withheld, plan.stopped)


def _with_what(action: LabelAction) -> str:
    return f"{describe_action(action)}: {action.reason}"


def device_part(keeper: DeviceHealthKeeper) -> PlanPart:
    """Of devices that are marked when they are faulty."""
    plan = keeper.plan
    if plan is None:
        return PlanPart(unplanned="device health: marks and devices are not listed yet")
    actions = [PlannedAction("mark device", _marked(each), describe(each)) for each in plan.actions]
    withheld = [
        HeldBack("mark device", f"device {uuid}", "its health changed", why) for uuid, why in plan.withheld.items()
    ]
    return PlanPart(actions, withheld)


def _marked(action: DeviceAction) -> str:
    return f"node {action.node}" if action.node else "devices of no one node"


def self_healing_part(healing: SelfHealing) -> PlanPart:
    """Of backups, dead nodes and moves of pods."""
    cluster = healing.cluster.current
    if cluster is None:
        why = healing.cluster.problem or "no answer yet"
        return PlanPart(unplanned=f"self-healing: the cluster is not listed yet: {why}")
    actions, withheld, unplanned = list[PlannedAction](), list(_without_backup(healing, cluster)), ""
    if healing.recovery:
        actions += _recovering(healing.recovery)
        withheld += _not_recovered(healing.recovery, cluster)
    if healing.replacement:
        moves = healing.replacement
        actions += [
            PlannedAction("move pod", f"pod {each.namespace}/{each.name}", _journey(each)) for each in moves.moves
        ]
        withheld += _not_moved(moves, cluster)
        unplanned = "" if moves.plan else "moves of pods: nothing is planned yet"
    if healing.rebalancer and healing.rebalancer.plan:
        withheld += [
            HeldBack("move pod", f"pod {each.namespace}/{each.name}", "another node serves it better", each.why)
            for each in healing.rebalancer.plan.left_out
        ]
    return PlanPart(actions, withheld, unplanned=unplanned)


def _without_backup(healing: SelfHealing, cluster: Cluster) -> Iterator[HeldBack]:
    for uid, each in healing.backups.status.coverage.items():
        if each.state is not CoverageState.COVERED:
            reason = "a pod with a delay bound has room kept on another node"
            yield HeldBack(
                "keep room for pod", _pod_name(cluster, uid), reason, each.reason or "the room is not held yet"
            )


def _recovering(recovery: NodeRecovery) -> Iterator[PlannedAction]:
    for node, why in recovery.state.refused.items():
        yield PlannedAction("refuse node to bounded pods", f"node {node}", why)
    for action in recovery.plan.actions if recovery.plan else ():
        if isinstance(action, DeletePod):
            yield PlannedAction("delete pod", f"pod {action.namespace}/{action.name}", action.reason)
        else:
            yield PlannedAction(_KIND_OF_RECOVERY[type(action)], f"node {action.node}", action.reason)


_KIND_OF_RECOVERY = {TaintNode: "taint node", UntaintNode: "remove taint", ReleaseRoom: "release room"}


def _not_recovered(recovery: NodeRecovery, cluster: Cluster) -> Iterator[HeldBack]:
    for node, why in recovery.state.withheld.items():
        yield HeldBack("fail over node", f"node {node}", "the node is dead", why)
    for uid, why in recovery.plan.stays.items() if recovery.plan else ():
        yield HeldBack("delete pod", _pod_name(cluster, uid), "its node is dead", why)


def _not_moved(replacement: Replacement, cluster: Cluster) -> Iterator[HeldBack]:
    if replacement.plan is None:
        return
    for report in replacement.plan.no_fix.values():
        yield HeldBack(
            "move pod", f"pod {report.namespace}/{report.name}", "it exceeds its bound or waits", str(report)
        )
    for uid, why in replacement.plan.waiting.items():
        yield HeldBack("move pod", _pod_name(cluster, uid), "another node would fit", why)


def _journey(move: Move) -> str:
    return f"from {move.from_node} to {move.to_node}: {move.reason}"


def _pod_name(cluster: Cluster, uid: str) -> str:
    pod = cluster.pods.get(uid)
    return f"pod {pod.namespace}/{pod.name}" if pod else f"pod {uid}"
