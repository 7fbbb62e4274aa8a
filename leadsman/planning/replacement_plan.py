"""Begins moves of pods that are over their bound, or in the way of a pending one, and reports where none helps.

How a pod moves is in `leadsman.planning.moves`. Each step is planned from what the API server shows now: called again
and again, a plan that was interrupted goes on where it stopped. Times are Unix seconds: they outlive a process.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import ClusterPod
from leadsman.cluster.resources import amount_text
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.planning.moves.mover import EndedMove, MoveAction, Mover, MoveResult, MoverSettings
from leadsman.planning.moves.plan_run import MovePlanLimits, PlanRun, accept
from leadsman.planning.moves.search import (
    free_part,
    is_bystander,
    why_never_moved,
    why_not_evictable,
    why_not_moved,
    why_quota_refuses,
)
from leadsman.planning.situation import Situation, excess_ms, hardest, violation
from leadsman.published.moves import HandedOverPlan, Move, MovePlan, MoverState, PlanOrigin, RunState


class ReplacementSettings(MoverSettings, frozen=True, kw_only=True):
    """Settings of re-placement that an operator chooses.

    mends: whether pods are moved for a bound that they left and for a pending pod. If not, only plans are carried out.
    hold_seconds: how long a delay must be over its bound, or a pod be pending without room, before anything is done.
    per_minute: most moves that begin within a minute.
    look_again_seconds: between two searches for one pod that has no fix.
    """

    mends: bool = True
    hold_seconds: float = 60.0
    per_minute: int = 2
    look_again_seconds: float = 30.0


class NoFix(Struct, frozen=True):
    """Nothing can be done for a pod. why: the same words while the cause is the same. text: with the bound, the delay,
    the node that comes closest, what that lacks, and what would fix it."""

    namespace: str
    name: str
    why: str
    text: str


class Trouble(Struct, frozen=True):
    """A pod whose delay is over its bound, or that is pending without room.

    since: when that was first seen.
    look_at: nothing is searched for it before then.
    report: what the last search found; None: nothing was searched yet, or there is a fix that waits for a budget.
    """

    since: float
    look_at: float = 0.0
    report: NoFix | None = None


class ReplacementMemory(Struct, frozen=True):
    """Remembers what the next plan begins with.

    troubles: UID → what is wrong with the pod; forgotten with the process.
    """

    state: MoverState = MoverState()
    troubles: Mapping[str, Trouble] = {}


class ReplacementPlan(Struct, frozen=True):
    """Actions of re-placement, to be done now and in this order once `memory.state` is written.

    ended: the moves that this plan ended.
    waiting: UID → why a pod for which there is a fix waits.
    """

    actions: tuple[MoveAction, ...]
    memory: ReplacementMemory
    ended: tuple[EndedMove, ...] = ()
    waiting: Mapping[str, str] = {}

    @property
    def no_fix(self) -> Mapping[str, NoFix]:
        """Maps the UID of each pod for which nothing can be done to its report."""
        troubles = self.memory.troubles.items()
        return {uid: trouble.report for uid, trouble in troubles if trouble.report is not None}


def no_fix(
    pod: ClusterPod, situation: Situation, why: str, violation: DelayEvidence | None = None, remedy: str = ""
) -> NoFix:
    """Returns the report.

    violation: the bound that a running pod has left; None: of a pending pod, the one that is said is that of the
        nearest node. remedy: of a cause that no other node would mend.
    """
    nearest, lacking, would_fix = _nearest(pod, situation)
    evidence = violation
    if evidence is None and nearest:
        evidence = hardest(delay_evidence(PodInfo.of(pod), (nearest,), situation.inputs).distances.get(nearest, ()))
    bounds = valid_bounds(PodInfo.of(pod))
    bound = ", ".join(f"{each.reference} within {each.ms:g} ms" for each in bounds) or "unreadable"
    delay = "unknown"
    if evidence is not None:
        bound = f"{evidence.to} within {evidence.bound_ms:g} ms"
        ms = "unknown" if evidence.rtt_ms is None else f"{evidence.rtt_ms:.3g} ms"
        age = "" if evidence.age_seconds is None else f", {evidence.age_seconds:.0f} s ago"
        delay = f"{ms} (by {evidence.source}{age})" if evidence.source else ms
    closest = f" Nearest is node {nearest}: {lacking}." if nearest else ""
    text = f"bound {bound}, delay {delay}: {why}.{closest} To fix it, {remedy or would_fix}."
    return NoFix(pod.namespace, pod.name, why, text)


def _nearest(pod: ClusterPod, situation: Situation) -> tuple[str, str, str]:
    """Returns the node that comes closest, "": none does; what it lacks, and what would fix that."""
    refused = situation.bound_refusals(pod)
    keepers = [node for node in situation.cluster.nodes if node not in refused and node != pod.node]
    return _lacking_least(pod, situation, keepers) if keepers else _least_excess(pod, situation, tuple(refused))


def _lacking_least(pod: ClusterPod, situation: Situation, keepers: list[str]) -> tuple[str, str, str]:
    """Finds the node that is refused for least, of those that keep the bounds."""
    cluster, verdict = situation.cluster, situation.verdict(pod)

    def lacks(node: str) -> tuple[int, float, str]:
        shortfall = pod.requests.shortfall(cluster.free(node))
        shares = sum(missing / pod.requests.amount(name) for name, missing in shortfall.items())
        return len(verdict.reasons(node)), shares, node

    node = min(keepers, key=lacks)
    if shortfall := pod.requests.shortfall(cluster.free(node)):
        missing = " and ".join(amount_text(name, amount) for name, amount in shortfall.items())
        return node, f"it keeps the bound and lacks {missing}", f"free {missing} on node {node}"
    if why := "; ".join(verdict.reasons(node)) or situation.lost_bound({pod.uid: node}):
        return node, f"it keeps the bound, but {why}", f"change what keeps the pod off node {node}: {why}"
    return node, "nothing, it could take the pod", f"delete the pod, so that its owner's new one goes to {node}"


def _least_excess(pod: ClusterPod, situation: Situation, nodes: Sequence[str]) -> tuple[str, str, str]:
    """Finds, of the nodes whose delay is known, the one that is over its bound by least; one that has room comes
    first."""
    has_room = set(Feasibility(situation.cluster, pod).nodes)
    missed = dict[str, tuple[float, DelayEvidence]]()
    for node, each in delay_evidence(PodInfo.of(pod), nodes, situation.inputs).distances.items():
        evidence = hardest(each)
        if node != pod.node and evidence is not None and (over_ms := excess_ms(evidence) or 0.0) > 0:
            missed[node] = over_ms, evidence
    if not missed:
        return "", "", "let agents measure the delays to more nodes, or loosen the bound"
    node = min(missed, key=lambda each: (each not in has_room, missed[each][0], each))
    over_ms, evidence = missed[node]
    ms = evidence.bound_ms + over_ms
    over = f"its delay to {evidence.to} is {ms:.3g} ms, {over_ms:.3g} ms over the bound"
    return (
        node,
        over,
        f"bring a node within {evidence.bound_ms:g} ms of {evidence.to}, or raise the bound to {ms:.3g} ms",
    )


MINUTE_SECONDS = 60.0

MAX_SEARCHES = 4
"""Pods that one plan searches for: each looks at many nodes, and a room at many pods."""


def plan_replacements(
    situation: Situation,
    memory: ReplacementMemory,
    settings: ReplacementSettings,
    now: float,
    avoid: frozenset[str],
    handed_over: HandedOverPlan | None,
    limits: MovePlanLimits,
) -> ReplacementPlan:
    """Returns what to do now. Execute the actions in order, and only after the plan's state is written.

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
    if progress is not None:
        plan = handed_over.plan if handed_over is not None else _DELETED
        progress = PlanRun(mover, plan, progress, limits).step()
    mover.release_orphans()
    state = replace(mover.state, started=replacements.started, progress=progress)
    memory = ReplacementMemory(state, replacements.troubles)
    return ReplacementPlan(tuple(mover.actions), memory, tuple(mover.ended), replacements.waiting)


_DELETED = MovePlan(origin=PlanOrigin.OPTIMISE, taken_at=None)
"""In place of a plan whose object was deleted: it is aborted, and counts only how its last moves end."""


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
        """Begins a move for the pod that was looked at longest ago, of those whose trouble lasts."""
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
        """Returns a move of a pod that is over its bound."""
        missed, situation = self._violations[pod.uid], self._mover.situation
        gave_up = self._mover.departures.gave_up(pod)
        if reason := gave_up or why_never_moved(pod):
            remedy = "find what brings it back there, then roll the workload out again" if gave_up else ""
            return no_fix(pod, situation, reason, missed, remedy)
        node = next(self._mover.search().places(pod), "")
        if not node:
            return no_fix(pod, situation, "no other node can take it", missed)
        if reason := why_not_evictable(pod, situation.cluster):
            return no_fix(pod, situation, reason, missed, "let the budget allow an eviction")
        if reason := why_quota_refuses(pod, situation.cluster):
            return no_fix(pod, situation, reason, missed, "raise the quota")
        delay = f"{missed.rtt_ms:.3g} ms, over {missed.bound_ms:g} ms" if missed.rtt_ms is not None else ""
        return self._mover.new_move(pod, node, f"its delay to {missed.to} is {delay}")

    def _room(self, pending: ClusterPod) -> Move | NoFix | None:
        """Returns a move of another pod that makes room for a pending one. None: it needs none."""
        mover, search = self._mover, self._mover.search()
        if search.fits(pending):
            return None
        found = search.room_for(pending, self._why_stays)
        if found is None:
            why = "it fits on no node, and no single pod can be moved to make room"
            return no_fix(pending, mover.situation, why)
        name = f"{pending.namespace}/{pending.name}"
        moved, to_node = found
        move = mover.new_move(moved, to_node, f"it makes room for pod {name}")
        room = free_part(pending.requests, mover.cluster.free(moved.node))
        return replace(move, for_uid=pending.uid, for_name=name, for_workload=pending.workload, room=room)

    def _why_wait(self, pod: ClusterPod) -> str:
        """Says which budget keeps a move for the pod from beginning now; "": none does."""
        if len(self.started) >= self._settings.per_minute:
            return f"{len(self.started)} moves began within a minute, and {self._settings.per_minute} may"
        if reason := self._mover.why_not_now(pod):
            return reason
        if (
            pod.node
            and self._mover.departures.is_barred(pod.owner_uid, pod.node)
            and not self._mover.departures.gave_up(pod)
        ):
            return f"a pod of its owner left node {pod.node} within {self._settings.cooldown_seconds:g} s"
        return ""

    def _why_stays(self, pod: ClusterPod) -> str:
        """Says why a pod is not moved for another one; "": it may be."""
        if is_bystander(pod):
            return "it ends, or only holds room"
        if reason := self._mover.why_in_flight(pod):
            return reason
        if self._mover.departures.is_barred(pod.owner_uid, pod.node):
            return f"a pod of its owner left node {pod.node} lately"
        return why_not_moved(pod, self._mover.cluster)
