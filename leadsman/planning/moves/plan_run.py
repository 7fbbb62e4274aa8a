"""Carries out a plan that was handed over: accepts it, begins its moves in order, counts what becomes of them."""

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.planning.moves.mover import Mover, MoveResult
from leadsman.planning.moves.search import why_never_moved, why_not_evictable, why_quota_refuses
from leadsman.published.moves import (
    HandedOverPlan,
    MovePlan,
    MoveProgress,
    Outcome,
    PlannedMove,
    PlanOrigin,
    PlanProgress,
    PlanRequest,
    RunState,
)

MINUTE_SECONDS = 60.0

MAX_NAMED = 3
"""Pods that a refusal names."""


class MovePlanLimits(Struct, frozen=True, kw_only=True):
    """Limits of a plan of moves that an operator chooses.

    per_minute: most moves of a plan that begin within a minute.
    max_failures: after so many failed moves the plan is aborted.
    wait_seconds: how long the next move may wait for a budget that allows its eviction, or for room, before it fails.
    max_age_seconds: how old the snapshot of a plan may be when it is accepted.
    """

    per_minute: int = 6
    max_failures: int = 2
    wait_seconds: float = 60.0
    max_age_seconds: float = 600.0


def accept(
    handed_over: HandedOverPlan | None,
    before: PlanProgress | None,
    cluster: Cluster,
    limits: MovePlanLimits,
    now: float,
) -> PlanProgress | None:
    """Returns how far the plan is, with what is asked for now. None: there never was a plan.

    before: of the last plan, this one or another.
    """
    if handed_over is None:
        gone = "its ConfigMap was deleted or cannot be read, or this controller carries out no plans"
        return before and _aborted(before, gone)
    if before is None or before.plan != handed_over.plan.id:
        reason = why_refused(handed_over.plan, set(cluster.pods), limits, now)
        state = RunState.REFUSED if reason else RunState.RUNNING
        before = PlanProgress(handed_over.plan.id, state, reason, (MoveProgress(),) * len(handed_over.plan.moves))
    match handed_over.request, before.state:
        case PlanRequest.RUN, RunState.PAUSED:
            return replace(before, state=RunState.RUNNING, note="")
        case PlanRequest.PAUSE, RunState.RUNNING:
            return replace(before, state=RunState.PAUSED, note="it was asked to pause")
        case PlanRequest.ABORT, _:
            return _aborted(before, "it was asked to")
    return before


def why_refused(plan: MovePlan, living_uids: set[str], limits: MovePlanLimits, now: float) -> str:
    """Says why a plan is not accepted; "": it is. living_uids: of all pods."""
    if plan.taken_at is None:
        return (
            "it does not say when its snapshot of the cluster was taken; plan again from a snapshot or the live cluster"
        )
    age = now - plan.taken_at
    if abs(age) > limits.max_age_seconds:
        when = f"{age:.0f} s old" if age > 0 else f"taken {-age:.0f} s in the future"
        return f"its snapshot of the cluster is {when}, and {limits.max_age_seconds:g} s are allowed; plan again"
    gone = [f"{move.namespace}/{move.name}" for move in plan.moves if move.pod_uid not in living_uids]
    if gone:
        more = f" and {len(gone) - MAX_NAMED} more" if len(gone) > MAX_NAMED else ""
        return f"pods of it are gone, or are others by now: {', '.join(gone[:MAX_NAMED])}{more}; plan again"
    return ""


class PlanRun:
    """One step of a plan, with the moves under way advanced before.

    progress: as `accept` has it.
    """

    def __init__(self, mover: Mover, plan: MovePlan, progress: PlanProgress, limits: MovePlanLimits) -> None:
        self._mover, self._plan, self._limits = mover, plan, limits
        self._state, self._note, self._moves = progress.state, progress.note, list(progress.moves)
        self._id = progress.plan

    def step(self) -> PlanProgress:
        """Counts what ended, and begins the next move if it may."""
        self._settle()
        if self._state is RunState.RUNNING:
            self._end_or_begin()
        return PlanProgress(self._id, self._state, self._note, tuple(self._moves))

    def _settle(self) -> None:
        for ended in self._mover.ended:
            if ended.move.plan != self._id:
                continue
            pod = self._mover.cluster.pods.get(ended.move.pod_uid)
            stays = pod is not None and not pod.terminating
            number = ended.move.ordinal
            if ended.result is MoveResult.CANCELLED and stays:
                self._moves[number] = MoveProgress(note=ended.note)
                continue
            outcome = _OUTCOMES[ended.result]
            self._moves[number] = replace(
                self._moves[number], outcome=outcome, note=ended.note, landed_on=ended.landed_on
            )

    def _end_or_begin(self) -> None:
        waiting = [number for number, each in enumerate(self._moves) if each.outcome is Outcome.WAITING]
        failed = [each.note for each in self._moves if each.outcome is Outcome.FAILED]
        if len(failed) >= self._limits.max_failures:
            self._state, self._note = RunState.ABORTED, f"{len(failed)} moves failed, the last because {failed[-1]}"
        elif waiting and self._plan.not_after is not None and self._mover.now > self._plan.not_after:
            self._state, self._note = RunState.ABORTED, f"its time is over, and {len(waiting)} moves had not begun"
        elif waiting:
            self._begin(waiting[0])
        elif all(each.outcome is not Outcome.MOVING for each in self._moves):
            self._state, self._note = RunState.DONE, ""

    def _begin(self, number: int) -> None:
        planned = self._plan.moves[number]
        found = self._mover.cluster.pods.get(planned.pod_uid)
        pod = _GONE if found is None or found.terminating else found
        if reason := self._why_outdated(planned, pod):
            self._set(number, Outcome.SKIPPED, reason)
        elif reason := self._why_not_yet(pod):
            self._moves[number] = replace(self._moves[number], note=reason, waiting_since=None)
        elif reason := self._why_not_possible(planned, pod):
            self._wait_or_fail(number, reason)
        else:
            now = self._mover.now
            move = self._mover.new_move(pod, planned.to_node, planned.reason)
            self._mover.begin(replace(move, plan=self._id, ordinal=number))
            self._moves[number] = MoveProgress(Outcome.MOVING, began_at=now)

    def _why_outdated(self, planned: PlannedMove, pod: ClusterPod) -> str:
        """Returns what the move was planned on and is not so any more; "": it is."""
        nodes = self._mover.cluster.nodes
        if not pod.uid:
            return "the pod is gone"
        if pod.node != planned.from_node:
            return f"the pod is on node {pod.node}, not on {planned.from_node}"
        if planned.to_node not in nodes or nodes[planned.to_node].uid != planned.to_node_uid:
            return f"node {planned.to_node} is gone, or is another one by now"
        if pod.node in self._mover.avoid:
            return f"its node {pod.node} is dead or suspect"
        if self._plan.origin is PlanOrigin.REBALANCE and (reason := self._why_rests(planned, pod)):
            return reason
        return why_never_moved(pod)

    def _why_rests(self, planned: PlannedMove, pod: ClusterPod) -> str:
        """Says which earlier move keeps a pod where it is, when nobody asked for this one; "": none does."""
        if self._mover.departures.moved_lately(pod):
            return "it was moved lately, or a sibling left its node"
        if self._mover.departures.is_barred(pod.owner_uid, planned.to_node):
            return f"a pod of its owner left node {planned.to_node} lately"
        return self._mover.departures.gave_up(pod)

    def _why_not_yet(self, pod: ClusterPod) -> str:
        """Returns what ends by itself and keeps the move from beginning; "": nothing."""
        now = self._mover.now
        begun = [each for each in self._moves if each.began_at is not None and now - each.began_at < MINUTE_SECONDS]
        if len(begun) >= self._limits.per_minute:
            return f"{self._limits.per_minute} moves of the plan began within a minute"
        return self._mover.why_not_now(pod)

    def _why_not_possible(self, planned: PlannedMove, pod: ClusterPod) -> str:
        mover = self._mover
        if reason := why_not_evictable(pod, mover.cluster) or why_quota_refuses(pod, mover.cluster):
            return reason
        if planned.to_node in mover.search(barred=False).places(pod, planned.to_node):
            return ""
        reason = mover.situation.verdict(pod).why_not(planned.to_node)
        return f"node {planned.to_node} cannot take the pod now{reason and f': {reason}'}"

    def _wait_or_fail(self, number: int, reason: str) -> None:
        """While other moves are under way, their pods may still make the room."""
        before = self._moves[number]
        since = self._mover.now if before.waiting_since is None or self._mover.moves else before.waiting_since
        if self._mover.now - since >= self._limits.wait_seconds:
            self._set(number, Outcome.FAILED, reason)
        else:
            self._moves[number] = replace(before, note=reason, waiting_since=since)

    def _set(self, number: int, outcome: Outcome, note: str) -> None:
        self._moves[number] = replace(self._moves[number], outcome=outcome, note=note, waiting_since=None)


_OUTCOMES = {
    MoveResult.REPLACED: Outcome.MOVED,
    MoveResult.CANCELLED: Outcome.SKIPPED,
    MoveResult.ROLLED_BACK: Outcome.FAILED,
    MoveResult.RETURNED: Outcome.FAILED,
    MoveResult.NOT_LANDED: Outcome.FAILED,
}

_GONE = ClusterPod("", "", "")


def _aborted(progress: PlanProgress, why: str) -> PlanProgress:
    if progress.state not in (RunState.RUNNING, RunState.PAUSED):
        return progress
    return replace(progress, state=RunState.ABORTED, note=why)
