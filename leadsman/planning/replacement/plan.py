"""Begins moves of pods that are over their bound, or in the way of a pending one, and reports where none helps."""

from msgspec.structs import replace

from leadsman.cluster.pod import ClusterPod
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.planning.moves.model import MoveResult
from leadsman.planning.moves.movable import is_bystander, why_never_moved, why_not_evictable
from leadsman.planning.moves.mover import Mover
from leadsman.planning.moves.plan_run import MovePlanLimits, PlanRun, accept
from leadsman.planning.moves.search import free_part
from leadsman.planning.replacement.model import (
    NoFix,
    ReplacementMemory,
    ReplacementPlan,
    ReplacementSettings,
    Trouble,
)
from leadsman.planning.replacement.no_fix import no_fix
from leadsman.planning.situation import Situation, violation
from leadsman.published.move_plan import HandedOverPlan
from leadsman.published.moves import Move, MoverState, RunState

MINUTE_SECONDS = 60.0

MAX_SEARCHES = 4
"""Pods that one plan searches for: each looks at many nodes, and a room at many pods."""


def plan_replacements(
    situation: Situation,
    memory: ReplacementMemory,
    settings: ReplacementSettings,
    now: float,
    avoid: frozenset[str] = frozenset(),
    handed_over: HandedOverPlan | None = None,
    limits: MovePlanLimits = MovePlanLimits(),  # noqa: B008
) -> ReplacementPlan:
    """What to do now. Execute the actions in order, and only after the plan's state is written.

    now: Unix seconds.
    avoid: nodes that are dead or suspect: nothing goes there, and what is on them is left to recovery.
    handed_over: a plan whose moves are made too, after those of re-placement; None: there is none.
    """
    progress = accept(handed_over, memory.state.progress, situation.cluster, limits, now)
    running = progress.plan if progress and progress.state is RunState.RUNNING else ""
    mover = Mover(situation, memory.state, settings, now, avoid, running)
    for move in memory.state.moves:
        mover.advance(move)
    replacements = Replacements(mover, memory, settings)
    if settings.mends:
        replacements.begin()
    if handed_over is not None and progress is not None:
        progress = PlanRun(mover, handed_over.plan, progress, limits).step()
    mover.release_orphans()
    state = MoverState(tuple(mover.moves), mover.departures, replacements.started, progress)
    memory = ReplacementMemory(state, replacements.troubles)
    return ReplacementPlan(tuple(mover.actions), memory, tuple(mover.ended), replacements.waiting)


class Replacements:
    """One step of re-placement, with the moves under way advanced before.

    waiting: UID → why a pod for which there is a fix waits.
    troubles: UID → what is wrong with the pod.
    started: when moves began, within the last minute.
    """

    def __init__(self, mover: Mover, memory: ReplacementMemory, settings: ReplacementSettings) -> None:
        self.waiting: dict[str, str] = {}
        self.troubles: dict[str, Trouble] = {}
        self.started = tuple(min(at, mover.now) for at in memory.state.started if mover.now - at < MINUTE_SECONDS)
        self._mover, self._settings, self._before = mover, settings, dict(memory.troubles)
        self._violations: dict[str, DelayEvidence] = {}

    def begin(self) -> None:
        """Finds the pods that need a new place, and begins at most one move."""
        self._let_failed_rest()
        self._find_troubles()
        self._begin_move()

    def _let_failed_rest(self) -> None:
        """Nothing is tried for a while after a move failed."""
        for ended in self._mover.ended:
            uid = ended.move.for_uid or ended.move.pod_uid
            if ended.result in (MoveResult.ROLLED_BACK, MoveResult.NOT_LANDED) and uid in self._before:
                again_at = self._mover.now + self._settings.cooldown_seconds
                self._before[uid] = replace(self._before[uid], look_at=again_at)

    def _find_troubles(self) -> None:
        """Remembers since when each pod is over its bound, or pending without room."""
        mover = self._mover
        for pod in mover.situation.bounded.values():
            if is_bystander(pod) or pod.node in mover.avoid:
                continue
            missed = violation(mover.situation, pod) if pod.node in mover.cluster.nodes else None
            if missed is not None:
                self._violations[pod.uid] = missed
            elif pod.node or pod.gated or pod.nominated_node or not valid_bounds(PodInfo.of(pod)):
                continue
            self.troubles[pod.uid] = self._before.get(pod.uid, Trouble(mover.now))

    def _begin_move(self) -> None:
        """Of the pods whose trouble lasts, the one that was looked at longest ago."""
        mover, now = self._mover, self._mover.now
        ripe = [uid for uid, each in self.troubles.items() if now - each.since >= self._settings.hold_seconds]
        searches = 0
        for uid in sorted(ripe, key=lambda each: (self.troubles[each].look_at, self.troubles[each].since, each)):
            pod = mover.cluster.pods[uid]
            if self.troubles[uid].look_at > now or any(uid in (move.pod_uid, move.for_uid) for move in mover.moves):
                continue
            if reason := self._why_wait(pod):
                self.waiting[uid] = reason
                continue
            if searches == MAX_SEARCHES:
                return
            searches += 1
            found = self._new_place(pod) if uid in self._violations else self._room(pod)
            if isinstance(found, Move):
                self.started = (*self.started, now)
                mover.begin(found)
            look_at = now + self._settings.look_again_seconds
            report = found if isinstance(found, NoFix) else None
            self.troubles[uid] = replace(self.troubles[uid], look_at=look_at, report=report)

    def _new_place(self, pod: ClusterPod) -> Move | NoFix:
        """A move of a pod that is over its bound."""
        missed, situation = self._violations[pod.uid], self._mover.situation
        gave_up = self._mover.gave_up(pod)
        if reason := gave_up or why_never_moved(pod):
            remedy = "find what brings it back there, then roll the workload out again" if gave_up else ""
            return no_fix(pod, situation, reason, missed, remedy)
        node = self._mover.search().new_place(pod)
        if not node:
            return no_fix(pod, situation, "no other node can take it", missed)
        if reason := why_not_evictable(pod, situation.cluster):
            return no_fix(pod, situation, reason, missed, "let the budget allow an eviction")
        delay = f"{missed.rtt_ms:.3g} ms, over {missed.bound_ms:g} ms" if missed.rtt_ms is not None else ""
        return self._mover.new_move(pod, node, f"its delay to {missed.to} is {delay}")

    def _room(self, pending: ClusterPod) -> Move | NoFix | None:
        """A move of another pod that makes room for a pending one. None: it needs none."""
        mover, search = self._mover, self._mover.search()
        if search.fits(pending):
            return None
        found = search.room_for(pending, self._why_stays)
        if found is None:
            why = "it fits on no node, and no single pod can be moved to make room"
            return no_fix(pending, mover.situation, why)
        name = f"{pending.namespace}/{pending.name}"
        move = mover.new_move(found.moved, found.to_node, f"it makes room for pod {name}")
        room = free_part(pending.requests, mover.cluster.free(found.moved.node))
        return replace(move, for_uid=pending.uid, for_name=name, for_workload=pending.workload, room=room)

    def _why_wait(self, pod: ClusterPod) -> str:
        """Which budget keeps a move for the pod from beginning now; "": none does."""
        if len(self.started) >= self._settings.per_minute:
            return f"{len(self.started)} moves began within a minute, and {self._settings.per_minute} may"
        if reason := self._mover.why_not_now(pod):
            return reason
        if pod.node and self._mover.is_barred(pod.owner_uid, pod.node) and not self._mover.gave_up(pod):
            return f"a pod of its owner left node {pod.node} within {self._settings.cooldown_seconds:g} s"
        return ""

    def _why_stays(self, pod: ClusterPod) -> str:
        """Why a pod is not moved for another one; "": it may be."""
        if is_bystander(pod):
            return "it ends, or only holds room"
        if reason := self._mover.why_in_flight(pod):
            return reason
        if self._mover.is_barred(pod.owner_uid, pod.node):
            return f"a pod of its owner left node {pod.node} lately"
        return why_never_moved(pod) or why_not_evictable(pod, self._mover.cluster)
