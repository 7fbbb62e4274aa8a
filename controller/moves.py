"""Moves pods: plans each step, keeps the state, has the actions executed, and says what came of it. Re-balancing plans
moves now and then, and hands them over as people do: one plan at a time, while none is carried out.

What a plan says is done only after the state that it comes with is written, so a new leader goes on with a move, and a
budget that is spent stays spent.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from prometheus_client.core import Metric

from controller.backup_keeper import room_body
from controller.keeper import (
    MAX_PODS_SHOWN,
    Actions,
    DocumentObject,
    HealedCluster,
    Keeper,
    Memory,
    Tools,
    move_hold_uid,
)
from controller.settings import PlaceholderSettings
from leadsman.cluster.model import Cluster
from leadsman.decision.view import Views
from leadsman.kube.client import ApiRequest
from leadsman.kube.errors import Conflict, TooManyRequests
from leadsman.kube.names import HELD_FOR_LABEL, PLACEHOLDER_NAMESPACE
from leadsman.kube.objects import ObjectReference
from leadsman.kube.resources import PODS
from leadsman.planning.moves.mover import EndedMove, EvictPod, HoldRoom, MoveAction, MoveResult, ReleaseHold
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.rebalance_plan import RebalanceSettings, plan_rebalance
from leadsman.planning.replacement_plan import (
    ReplacementMemory,
    ReplacementPlan,
    ReplacementSettings,
    plan_replacements,
)
from leadsman.published.documents import BadDocument
from leadsman.published.moves import (
    MOVE_PLAN,
    MOVES,
    HandedOverPlan,
    Move,
    MovePlan,
    MoverState,
    MoveStep,
    Outcome,
    PlanProgress,
    RunState,
    is_under_way,
)
from leadsman.published.self_healing import Hold
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge

_log = logging.getLogger(__name__)

HOLD_LASTS_SECONDS = 600
"""A holding pod ends by itself after this, also when no controller is left that would release it."""

RETRY_EVICTION_SECONDS = 5.0
"""An eviction that a budget refused is tried again after this time, unless the API server names another."""


def hold_body(action: HoldRoom, settings: PlaceholderSettings) -> dict[str, Any]:
    """Makes the pod that holds room. Its name is its purpose, so that a second one is never made for it."""
    body = room_body({"name": f"hold-{action.for_uid}"}, {HELD_FOR_LABEL: action.for_uid}, action, settings)
    return {**body, "spec": {**body["spec"], "activeDeadlineSeconds": HOLD_LASTS_SECONDS}}


def eviction_body(action: EvictPod) -> dict[str, Any]:
    """Makes an eviction of policy/v1, which the API server refuses when the pod of this name is another one by then."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": action.name, "namespace": action.namespace},
        "deleteOptions": {"preconditions": {"uid": action.uid}},
    }


STEER_SECONDS = 60.0
"""An owner's new pod may for so long go nowhere but to the room that is held for it."""

_EVENT_OF = {
    MoveResult.REPLACED: "Replaced",
    MoveResult.ROLLED_BACK: "ReplacementRolledBack",
    MoveResult.RETURNED: "ReplacementReturned",
    MoveResult.NOT_LANDED: "ReplacementNotLanded",
}
"""A move that was cancelled leaves everything as it was, and no Event."""


class Replacement(Keeper):
    """Plans moves, writes the state if it changed, and then acts. A dry run only plans.

    plan: the last one; None before the first.
    ended: result of moves → how many.
    actions: create and delete holding pods, and evict; their result is done, waits, exists, gone, conflict, refused or
        failed.
    """

    name = "replace pods"
    every_seconds = 2.0
    pause_ratio = 5.0
    problem_texts = (
        f"controller cannot keep ConfigMap {MOVES.config_map}; it moves no pods until it can",
        f"controller keeps ConfigMap {MOVES.config_map} again",
    )

    def __init__(self, tools: Tools, healed: HealedCluster, settings: ReplacementSettings) -> None:
        super().__init__(tools)
        self.plan: ReplacementPlan | None = None
        self.actions = Actions(_log, "controller cannot move a pod; it tries again", "controller can move pods again")
        self._evict_not_before: dict[str, float] = {}
        self._unseen_holds: set[str] = set()
        self.ended: Counter[MoveResult] = Counter()
        self._healed, self._settings, self._views = healed, settings, Views()
        self._state = Memory(tools, MOVES, MoverState())
        self._plan_object = DocumentObject(tools.client, tools.namespace, MOVE_PLAN)
        self._memory: ReplacementMemory | None = None
        self._reported: dict[str, str] = {}
        self._proposed: dict[str, Move] = {}
        self._plan_problem = ProblemLog(
            _log,
            f"controller cannot read the plan in ConfigMap {MOVE_PLAN.config_map}, and carries none out",
            f"controller reads ConfigMap {MOVE_PLAN.config_map} again",
        )

    def forget(self) -> None:
        self.plan, self._memory, self._proposed, self._reported = None, None, {}, {}
        self._evict_not_before, self._unseen_holds = {}, set()
        self._state.forget()

    def fail(self) -> None:
        self._memory = None
        self._state.forget()

    async def keep(self) -> None:
        cluster = self._healed.current
        if cluster is None:
            return
        before = await self._remember()
        plan = await self._plan(cluster, before, await self._handed_over())
        if not self.tools.is_dry_run and plan.memory.state != before.state:
            await self._state.write(plan.memory.state)
        self.plan = plan
        if self.tools.is_dry_run:
            self._propose(plan)
            return
        self._memory = plan.memory
        self._tell(before.state, plan)
        await self.actions.carry_out(plan.actions, self._execute)

    @property
    def holds(self) -> tuple[Hold, ...] | None:
        """Returns room to keep from others while a pod moves: on its new node until the new pod is there, and on the
        node that it leaves, for the pending pod that room is made for. None: the moves are not read yet."""
        cluster, memory = self._healed.current, self._memory
        if cluster is None or memory is None:
            return None
        holds: list[Hold] = []
        for move in memory.state.moves:
            until, uid = move.since + self._settings.landing_seconds, move_hold_uid(move.pod_uid)
            if move.step in (MoveStep.EVICTING, MoveStep.LANDING):
                steers = self.tools.wall_clock() < move.since + STEER_SECONDS
                holds.append(Hold(move.to_node, move.owner_uid, move.requests, until, uid, only=steers))
            pending = cluster.pods.get(move.for_uid)
            if pending is not None and move.step is not MoveStep.HOLDING:
                requests = pending.requests
                holds.append(Hold(move.from_node, pending.owner_uid, requests, until, uid, for_uid=pending.uid))
        return tuple(holds)

    def page(self) -> Mapping[str, Any]:
        """Shows moves under way, pods without a fix and pods that wait."""
        if self.plan is None:
            return {"none": "nothing is planned yet"}
        state, reports = self.plan.memory.state, list(self.plan.no_fix.values())
        moves = {"would_move": self._proposed.values()} if self.tools.is_dry_run else {"moves": state.moves}
        return {
            **{name: list(map(_shown, each)) for name, each in moves.items()},
            "no_fix": {f"{each.namespace}/{each.name}": each.text for each in reports[:MAX_PODS_SHOWN]},
            "waiting": dict(list(self.plan.waiting.items())[:MAX_PODS_SHOWN]),
            "departures": msgspec.to_builtins(state.departures),
            "plan": msgspec.to_builtins(state.progress),
        }

    def families(self) -> Iterator[Metric]:
        plan = self.plan
        progress = plan.memory.state.progress if plan else None
        yield counter(
            "leadsman_replacements",
            "Moves of pods that ended, by result.",
            {result.value: self.ended[result] for result in MoveResult},
            "result",
        )
        yield gauge(
            "leadsman_pods_without_fix",
            "Pods over their delay bound, or pending, that nothing can be done for.",
            len(plan.no_fix) if plan else 0,
        )
        yield gauge(
            "leadsman_move_plan_state",
            "1 for the state of the plan of moves that was handed over.",
            {progress.state.value: 1} if progress else {},
            "state",
        )
        yield gauge(
            "leadsman_move_plan_moves",
            "Moves of the plan that was handed over, by outcome.",
            {each.value: progress.count(each) for each in Outcome} if progress else {},
            "outcome",
        )

    async def _remember(self) -> ReplacementMemory:
        if self._memory is None:
            state = MoverState() if self.tools.is_dry_run else await self._state.read()
            self._memory = ReplacementMemory(state)
        return self._memory

    async def _handed_over(self) -> HandedOverPlan | None:
        """Returns the plan to carry out; None: there is none, or none is carried out here."""
        if self._healed.settings.move_plans is None or self.tools.is_dry_run:
            return None
        try:
            handed_over = await self._plan_object.read()
        except BadDocument as error:
            self._plan_problem.report(error)
            return None
        self._plan_problem.clear()
        return handed_over

    async def _plan(
        self, cluster: Cluster, before: ReplacementMemory, handed_over: HandedOverPlan | None
    ) -> ReplacementPlan:
        situation = await self.tools.situation(cluster, self._views)
        limits = self._healed.settings.move_plans or MovePlanLimits()
        now, avoid = self.tools.wall_clock(), self._healed.unhealthy
        return await self.make_plan(
            lambda: plan_replacements(situation, before, self._settings, now, avoid, handed_over, limits)
        )

    def _propose(self, plan: ReplacementPlan) -> None:
        """Says what a dry run would do: nothing that it plans ever begins."""
        self._memory = ReplacementMemory(MoverState(), plan.memory.troubles)
        still = {uid: move for uid, move in self._proposed.items() if uid in plan.memory.troubles}
        new = {move.for_uid or move.pod_uid: move for move in plan.memory.state.moves}
        for uid, move in new.items():
            if uid not in still:
                _log.info("dry run: would move pod %s/%s: %s", move.namespace, move.name, move.reason)
        self._proposed = still | new

    def _tell(self, before: MoverState, plan: ReplacementPlan) -> None:
        """Writes Events: how moves ended, what became of a plan, and for each pod without a fix why, once for each
        reason."""
        progress, earlier = plan.memory.state.progress, before.progress
        if progress and (not earlier or (earlier.plan, earlier.state) != (progress.plan, progress.state)):
            self._tell_progress(progress)
        for ended in plan.ended:
            self.ended[ended.result] += 1
            self._evict_not_before.pop(ended.move.pod_uid, None)
            self._unseen_holds -= {ended.move.pod_uid, ended.move.for_uid}
            _log.info("move of pod %s/%s: %s: %s", ended.move.namespace, ended.move.name, ended.result, ended.note)
            self._tell_end(ended)
        for uid, report in plan.no_fix.items():
            if self._reported.get(uid) != report.why:
                _log.warning("nothing can be done for pod %s/%s: %s", report.namespace, report.name, report.text)
                about = ObjectReference("Pod", report.namespace, report.name, uid)
                self.tools.tell(about, "NoFix", report.text, "Replace", warning=True)
        self._reported = {uid: report.why for uid, report in plan.no_fix.items()}

    def _tell_end(self, ended: EndedMove) -> None:
        """Says how a move ended: on its pod, and on the pending pod that it made room for."""
        if ended.result not in _EVENT_OF:
            return
        move, reason, warning = ended.move, _EVENT_OF[ended.result], ended.result is not MoveResult.REPLACED
        note = f"{move.reason}; from node {move.from_node}: {ended.note}"
        about = ObjectReference("Pod", move.namespace, move.name, move.pod_uid)
        self.tools.tell(about, reason, note, "Replace", warning=warning)
        if move.for_uid:
            namespace, _, name = move.for_name.partition("/")
            note = f"pod {move.namespace}/{move.name} was to make room on node {move.from_node}: {ended.note}"
            about = ObjectReference("Pod", namespace, name, move.for_uid)
            self.tools.tell(about, reason, note, "Replace", warning=warning)

    def _tell_progress(self, progress: PlanProgress) -> None:
        """Writes the state that a plan came to, on the ConfigMap that handed it over."""
        counts = ", ".join(f"{progress.count(outcome)} {outcome}" for outcome in Outcome)
        note = f"plan {progress.plan} of moves is {progress.state}: {progress.note or counts}"
        unhappy = progress.state in (RunState.ABORTED, RunState.REFUSED)
        _log.log(logging.WARNING if unhappy else logging.INFO, "%s", note)
        about = ObjectReference("ConfigMap", self.tools.namespace, MOVE_PLAN.config_map, self._plan_object.uid)
        self.tools.tell(about, f"MovePlan{progress.state.capitalize()}", note, "Move", warning=unhappy)

    async def _execute(self, action: MoveAction) -> str:
        match action:
            case HoldRoom():
                return await self._hold(action)
            case EvictPod():
                return await self._evict(action)
            case ReleaseHold():
                await self.tools.client.delete(PODS.path(action.namespace, action.name), action.uid)
                _log.info("released %s: %s", action.name, action.reason)
                return "done"

    async def _hold(self, action: HoldRoom) -> str:
        body = hold_body(action, self._healed.settings.placeholders)
        try:
            await self.tools.client.create(PODS.path(PLACEHOLDER_NAMESPACE), body)
        except Conflict:
            if action.for_uid in self._unseen_holds:  # Its kubelet refused it, no plan sees it, nobody else deletes it.
                await self.tools.client.delete(PODS.path(PLACEHOLDER_NAMESPACE, body["metadata"]["name"]))
            self._unseen_holds.add(action.for_uid)
            return "exists"
        self._unseen_holds.discard(action.for_uid)
        _log.info("holding %s", action.reason)
        return "done"

    async def _evict(self, action: EvictPod) -> str:
        """Waits until extenders can know that room is held: the owner makes a new pod at once, which would go back."""
        now = self.tools.clock()
        if now < self._evict_not_before.get(action.uid, 0.0) or not self._healed.publishes_hold_of_move(action.uid):
            return "waits"
        path = PODS.path(action.namespace, action.name, "eviction")
        try:
            await self.tools.client.send(ApiRequest("POST", path, body=eviction_body(action)))
        except TooManyRequests as error:
            self._evict_not_before[action.uid] = now + (error.retry_after_seconds or RETRY_EVICTION_SECONDS)
            _log.warning("API server refuses the eviction of %s/%s now: %s", action.namespace, action.name, error)
            return "refused"
        self._evict_not_before.pop(action.uid, None)
        _log.warning("evicted pod %s/%s: %s", action.namespace, action.name, action.reason)
        return "done"


class Rebalancer(Keeper):
    """Plans moves if no plan is being carried out, and hands over what is worth it.

    replacement: carries plans out, and knows which pods were moved.
    plan: the last one; None before the first.
    """

    name = "rebalance"
    every_seconds = 300.0
    """Measurements follow a move within a minute or two, and the pressure's averages are of minutes."""
    problem_texts = (
        "controller cannot hand over its plan of re-balancing; it plans again in 5 minutes",
        "controller hands over its plans of re-balancing again",
    )

    def __init__(
        self, tools: Tools, healed: HealedCluster, replacement: Replacement, settings: RebalanceSettings
    ) -> None:
        super().__init__(tools)
        self.plan: MovePlan | None = None
        self._healed, self._replacement, self._settings = healed, replacement, settings
        self._object, self._views = DocumentObject(tools.client, tools.namespace, MOVE_PLAN), Views()
        self._due_at = tools.clock() + self.every_seconds

    async def keep(self) -> None:
        cluster = self._healed.current
        if cluster is None or self._is_busy():
            self.hurry()
            return
        plan = self.plan = await self._plan(cluster)
        for each in plan.left_out:
            _log.info("pod %s/%s is not re-balanced: %s", each.namespace, each.name, each.why)
        if not plan.moves:
            return
        if self._is_busy(await self._object.read()):
            self.hurry()
        else:
            await self._object.write(HandedOverPlan(plan))

    def page(self) -> Mapping[str, Any]:
        """Shows the last plan: its moves, and the pods that stay although another node serves them better."""
        moves, left_out = (self.plan.moves, self.plan.left_out) if self.plan else ((), ())
        return {
            "moves": {f"{each.namespace}/{each.name}": each.reason for each in moves},
            "left_out": {f"{each.namespace}/{each.name}": each.why for each in left_out},
        }

    def _is_busy(self, handed_over: HandedOverPlan | None = None) -> bool:
        """Tells whether pods are being moved, or a plan is under way; also before that is known."""
        plan = self._replacement.plan
        return plan is None or bool(plan.memory.state.moves) or is_under_way(handed_over, plan.memory.state.progress)

    async def _plan(self, cluster: Cluster) -> MovePlan:
        carried_out = self._replacement.plan
        departures = carried_out.memory.state.departures if carried_out else ()
        situation, now = await self.tools.situation(cluster, self._views), self.tools.wall_clock()
        backups, unhealthy = self._healed.settings.backups, self._healed.unhealthy
        return await self.make_plan(
            lambda: plan_rebalance(situation, departures, self._settings, backups, now, now, unhealthy)
        )


def _shown(move: Move) -> dict[str, Any]:
    return {
        "pod": f"{move.namespace}/{move.name}",
        "from": move.from_node,
        "to": move.to_node,
        "step": move.step.value,
        "since": move.since,
        "reason": move.reason,
    }
