"""One step of re-placement: from the cluster, its delays and what is remembered to actions.

A move goes through these steps, and each is planned only when the API server shows the one before:

1. Pods that hold room are created: on the node that the pod goes to, and on its own what is free of what the pending
   pod needs.
2. Once they are bound, everything is checked as if they were not there, and the eviction is asked for.
3. Once the pod ends, the room on its new node is released for the one that its owner makes.
4. Once that one has a node, the rest of the room is released for the pending pod.

A holding pod that belongs to no move is released: so a move that is given up is rolled back.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.scheduling import refusals as scheduling_refusals
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.kube.names import HELD_FOR_LABEL
from leadsman.planning.replacement.bounds import SupposedBounds, workload_key
from leadsman.planning.replacement.model import (
    Departure,
    EndedMove,
    EvictPod,
    HoldRoom,
    Move,
    MoveResult,
    MoveStep,
    NoFix,
    ReleaseHold,
    ReplacementAction,
    ReplacementMemory,
    ReplacementPlan,
    ReplacementSettings,
    ReplacementState,
    Trouble,
)
from leadsman.planning.replacement.movable import is_bystander, why_never_moved, why_not_evictable
from leadsman.planning.replacement.no_fix import no_fix
from leadsman.planning.replacement.search import RoomMove, Search, free_part

MINUTE_SECONDS = 60.0

MAX_SEARCHES = 4
"""Pods that one plan searches for: each looks at many nodes, and a room at many pods."""


def plan_replacements(
    cluster: Cluster,
    inputs: DecisionInputs,
    memory: ReplacementMemory,
    settings: ReplacementSettings,
    now: float,
    avoid: frozenset[str] = frozenset(),
) -> ReplacementPlan:
    """What to do now. Execute the actions in order, and only after the plan's state is written.

    now: Unix seconds.
    avoid: nodes that are dead or suspect: nothing goes there, and what is on them is left to recovery.
    """
    planner = _Planner(cluster, inputs, memory, settings, now, avoid)
    for move in memory.state.moves:
        planner.advance(move)
    planner.release_orphans()
    planner.find_troubles()
    planner.begin_moves()
    return planner.plan()


class _Planner:
    """One step in the making."""

    def __init__(
        self,
        cluster: Cluster,
        inputs: DecisionInputs,
        memory: ReplacementMemory,
        settings: ReplacementSettings,
        now: float,
        avoid: frozenset[str],
    ) -> None:
        self._cluster, self._inputs, self._settings, self._now, self._avoid = cluster, inputs, settings, now, avoid
        self._bounds = SupposedBounds(cluster, inputs)
        self._search = Search(cluster, self._bounds, self._is_barred, avoid)
        self._holds: dict[str, list[ClusterPod]] = {}
        for pod in cluster.pods.values():
            if HELD_FOR_LABEL in pod.labels:
                self._holds.setdefault(pod.labels[HELD_FOR_LABEL], []).append(pod)
        self._before = memory.troubles
        self._troubles: dict[str, Trouble] = {}
        self._violations: dict[str, DelayEvidence] = {}
        self._moves: list[Move] = []
        self._started = tuple(min(at, now) for at in memory.state.started if now - at < MINUTE_SECONDS)
        owners = {pod.owner_uid for pod in cluster.pods.values()}
        self._departures = {
            (each.owner_uid, each.node): each
            for each in memory.state.departures
            if each.owner_uid in owners and (each.returns or now - each.at < settings.cooldown_seconds)
        }
        self._actions: list[ReplacementAction] = []
        self._ended: list[EndedMove] = []
        self._waiting: dict[str, str] = {}

    def plan(self) -> ReplacementPlan:
        state = ReplacementState(tuple(self._moves), tuple(self._departures.values()), self._started)
        memory = ReplacementMemory(state, self._troubles)
        return ReplacementPlan(tuple(self._actions), memory, tuple(self._ended), self._waiting)

    def advance(self, move: Move) -> None:
        """The next step of a move."""
        pod = self._cluster.pods.get(move.pod_uid)
        goes = pod is None or pod.terminating
        if move.step is MoveStep.EVICTING and goes:
            move = replace(move, step=MoveStep.LANDING, since=self._now)
        if move.step is MoveStep.LANDING:
            self._land(move)
        elif move.step is MoveStep.TAKING:
            self._take(move)
        elif pod is None or pod.terminating:
            self._end(move, MoveResult.CANCELLED, "the pod ends without us")
        elif reason := self._why_needless(move, pod):
            self._end(move, MoveResult.CANCELLED, reason)
        else:
            self._prepare(move, pod)

    def release_orphans(self) -> None:
        """Deletes the holding pods that no move needs any more."""
        needed = {uid for move in self._moves for uid in _needed_holds(move)}
        for uid, pods in self._holds.items():
            for pod in pods:
                if uid not in needed and not pod.terminating:
                    reason = "the move that it held room for needs it no more"
                    self._actions.append(ReleaseHold(pod.uid, pod.namespace, pod.name, reason))

    def find_troubles(self) -> None:
        """Remembers since when each pod is over its bound, or pending without room."""
        for pod in self._bounds.bounded.values():
            if is_bystander(pod) or pod.node in self._avoid:
                continue
            violation = self._bounds.violation(pod) if pod.node in self._cluster.nodes else None
            if violation is not None:
                self._violations[pod.uid] = violation
            elif pod.node or pod.gated or pod.nominated_node or not valid_bounds(_pod_info(pod)):
                continue
            self._troubles[pod.uid] = self._before.get(pod.uid, Trouble(self._now))

    def begin_moves(self) -> None:
        """Begins at most one move: the next plan sees the room that it holds."""
        ripe = [uid for uid, each in self._troubles.items() if self._now - each.since >= self._settings.hold_seconds]
        searches = 0
        for uid in sorted(ripe, key=lambda each: (self._troubles[each].look_at, self._troubles[each].since, each)):
            pod = self._cluster.pods[uid]
            if self._troubles[uid].look_at > self._now or any(uid in (m.pod_uid, m.for_uid) for m in self._moves):
                continue
            if reason := self._why_wait(pod):
                self._waiting[uid] = reason
                continue
            if searches == MAX_SEARCHES:
                return
            searches += 1
            found = self._new_place(pod) if uid in self._violations else self._room(pod)
            if isinstance(found, Move):
                self._moves.append(found)
                self._started = (*self._started, self._now)
                self._hold_room(found)
            look_at = self._now + self._settings.look_again_seconds
            report = found if isinstance(found, NoFix) else None
            self._troubles[uid] = replace(self._troubles[uid], look_at=look_at, report=report)

    def _new_place(self, pod: ClusterPod) -> Move | NoFix:
        """A move of a pod that is over its bound."""
        violation = self._violations[pod.uid]
        gave_up = self._gave_up(pod)
        if reason := gave_up or why_never_moved(pod):
            remedy = "find what brings it back there, then roll the workload out again" if gave_up else ""
            return no_fix(pod, self._cluster, self._bounds, reason, violation, remedy)
        node = self._search.new_place(pod)
        if not node:
            return no_fix(pod, self._cluster, self._bounds, "no other node can take it", violation)
        if reason := why_not_evictable(pod, self._cluster):
            return no_fix(pod, self._cluster, self._bounds, reason, violation, "let the budget allow an eviction")
        delay = f"{violation.rtt_ms:.3g} ms, over {violation.bound_ms:g} ms" if violation.rtt_ms is not None else ""
        return self._move(pod, node, f"its delay to {violation.to} is {delay}")

    def _room(self, pending: ClusterPod) -> Move | NoFix | None:
        """A move of another pod that makes room for a pending one. None: it needs none."""
        if self._search.fits(pending):
            return None
        found = self._search.room_for(pending, self._why_stays)
        if found is None:
            why = "it fits on no node, and no single pod can be moved to make room"
            return no_fix(pending, self._cluster, self._bounds, why)
        move = self._move(found.moved, found.to_node, f"it makes room for pod {pending.namespace}/{pending.name}")
        room = free_part(pending.requests, self._cluster.free(found.moved.node))
        name = f"{pending.namespace}/{pending.name}"
        return replace(move, for_uid=pending.uid, for_name=name, for_workload=pending.workload, room=room)

    def _move(self, pod: ClusterPod, node: str, reason: str) -> Move:
        return Move(
            pod_uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            workload=pod.workload,
            owner_uid=pod.owner_uid,
            from_node=pod.node,
            to_node=node,
            requests=pod.requests,
            reason=reason,
            since=self._now,
        )

    def _prepare(self, move: Move, pod: ClusterPod) -> None:
        """Has room held, and then the pod evicted."""
        late = self._now - move.since >= self._settings.hold_room_seconds
        held = self._hold_room(move)
        if late or (held and (reason := self._why_impossible(move, pod))):
            doing = "the room was not held" if not held else "the eviction was not allowed"
            seconds = self._settings.hold_room_seconds
            self._end(move, MoveResult.ROLLED_BACK, f"{doing} within {seconds:g} s" if late else reason)
            return
        if not held or why_not_evictable(pod, self._cluster):
            self._moves.append(move)
            return
        if move.step is MoveStep.HOLDING:
            siblings = tuple(each.uid for each in self._cluster.pods.values() if each.owner_uid == pod.owner_uid)
            move = replace(move, step=MoveStep.EVICTING, siblings=siblings)
            departure = self._departures.get((pod.owner_uid, pod.node), Departure(pod.owner_uid, pod.node, self._now))
            self._departures[pod.owner_uid, pod.node] = replace(departure, at=self._now)
        self._moves.append(move)
        self._actions.append(EvictPod(pod.uid, pod.namespace, pod.name, pod.node, move.reason))

    def _hold_room(self, move: Move) -> bool:
        """Asks for the holding pods that are missing. Whether all are bound."""
        pod = self._cluster.pods[move.pod_uid]
        asked = [(move.pod_uid, move.to_node, move.requests, pod, f"pod {move.namespace}/{move.name}")]
        if move.room is not None and move.for_uid in self._cluster.pods:
            pending = self._cluster.pods[move.for_uid]
            asked.append((move.for_uid, move.from_node, move.room, pending, f"pod {move.for_name}"))
        bound = True
        for uid, node, requests, of, name in asked:
            there = [each for each in self._holds.get(uid, ()) if not each.terminating]
            bound = bound and any(each.node == node for each in there)
            if not there:
                reason = f"room on node {node} for {name}"
                self._actions.append(HoldRoom(node, uid, requests, of.constraints.tolerations, reason))
        return bound

    def _land(self, move: Move) -> None:
        """Waits until the new pod has a node."""
        new = [
            pod
            for pod in self._cluster.pods.values()
            if pod.owner_uid == move.owner_uid and pod.uid not in move.siblings and not pod.terminating
        ]
        landed = next((pod for pod in new if pod.node), None)
        if landed is not None and landed.node == move.from_node:
            key = (move.owner_uid, move.from_node)
            departure = self._departures.get(key, Departure(*key, self._now))
            self._departures[key] = replace(departure, at=self._now, returns=departure.returns + 1)
            self._end(move, MoveResult.RETURNED, f"the new pod {landed.name} went back to node {move.from_node}")
        elif landed is not None and move.for_uid and move.pod_uid not in self._cluster.pods:
            self._take(replace(move, step=MoveStep.TAKING, since=self._now))
        elif landed is not None and not move.for_uid:
            self._end(move, MoveResult.REPLACED, f"pod {landed.name} took its place on node {landed.node}")
        elif self._now - move.since >= self._settings.landing_seconds:
            note = f"its owner's new pod has no node after {self._settings.landing_seconds:g} s"
            self._end(move, MoveResult.NOT_LANDED, note)
        else:
            self._moves.append(move)

    def _take(self, move: Move) -> None:
        """Waits until the pending pod has taken the room."""
        pending = self._cluster.pods.get(move.for_uid)
        if pending is None or pending.node:
            taken = f"pod {move.for_name} has node {pending.node}" if pending else f"pod {move.for_name} is gone"
            self._end(move, MoveResult.REPLACED, taken)
        elif self._now - move.since >= self._settings.landing_seconds:
            reasons = scheduling_refusals(self._cluster, pending, move.from_node)
            why = f": {reasons[0]}" if reasons else ""
            self._end(move, MoveResult.NOT_LANDED, f"pod {move.for_name} has not taken node {move.from_node}{why}")
        else:
            self._moves.append(move)

    def _end(self, move: Move, result: MoveResult, note: str) -> None:
        self._ended.append(EndedMove(move, result, note))
        departure = self._departures.get((move.owner_uid, move.from_node))
        if result is MoveResult.REPLACED and departure is not None:
            self._departures[move.owner_uid, move.from_node] = replace(departure, returns=0)
        failed = result in (MoveResult.ROLLED_BACK, MoveResult.NOT_LANDED)
        uid = move.for_uid or move.pod_uid
        if failed and uid in self._before:
            again_at = self._now + self._settings.cooldown_seconds
            self._before = {**self._before, uid: replace(self._before[uid], look_at=again_at)}

    def _why_needless(self, move: Move, pod: ClusterPod) -> str:
        """Why a move that has evicted nothing yet has lost its cause; "": it has not."""
        if not move.for_uid:
            return "" if self._bounds.violation(pod) else "no measured delay is over the bound any more"
        pending = self._cluster.pods.get(move.for_uid)
        if pending is None or pending.terminating:
            return f"pod {move.for_name} is gone"
        return f"pod {move.for_name} has node {pending.node}" if pending.node else ""

    def _why_impossible(self, move: Move, pod: ClusterPod) -> str:
        """Why the move may not be made as things are now, its own holding pods left out; "": it may."""
        own = {each.uid: None for uid in (move.pod_uid, move.for_uid) for each in self._holds.get(uid, ())}
        search = Search(self._cluster.changed(pods=own), self._bounds, self._is_barred, self._avoid)
        if reason := why_never_moved(pod):
            return reason
        if not move.for_uid:
            return "" if search.is_place(pod, move.to_node) else f"node {move.to_node} cannot take the pod any more"
        pending = self._cluster.pods[move.for_uid]
        if search.fits(pending):
            return f"pod {move.for_name} fits without it"
        possible = search.is_room_move(pending, RoomMove(pod, move.to_node))
        return "" if possible else f"the move would not make room for pod {move.for_name} any more"

    def _why_wait(self, pod: ClusterPod) -> str:
        """Which budget keeps a move for the pod from beginning now; "": none does."""
        if len(self._started) >= self._settings.per_minute:
            return f"{len(self._started)} moves began within a minute, and {self._settings.per_minute} may"
        if any(move.step is MoveStep.HOLDING for move in self._moves):
            return "another move is about to begin"
        if self._bounds.related(pod) & self._workloads_in_flight():
            return "a pod of its workload, or of one that bounds tie to it, is being moved"
        if pod.node and self._is_barred(pod.owner_uid, pod.node) and not self._gave_up(pod):
            return f"a pod of its owner left node {pod.node} within {self._settings.cooldown_seconds:g} s"
        return ""

    def _why_stays(self, pod: ClusterPod) -> str:
        """Why a pod is not moved for another one; "": it may be."""
        if is_bystander(pod):
            return "it ends, or only holds room"
        if self._bounds.related(pod) & self._workloads_in_flight():
            return "a pod of its workload, or of one that bounds tie to it, is being moved"
        if self._is_barred(pod.owner_uid, pod.node):
            return f"a pod of its owner left node {pod.node} lately"
        return why_never_moved(pod) or why_not_evictable(pod, self._cluster)

    def _workloads_in_flight(self) -> set[tuple[str, str]]:
        moved = {workload_key(move.namespace, move.workload) for move in self._moves}
        waiting = {workload_key(move.for_name.partition("/")[0], move.for_workload) for move in self._moves}
        return moved | waiting

    def _gave_up(self, pod: ClusterPod) -> str:
        departure = self._departures.get((pod.owner_uid, pod.node))
        if departure is None or departure.returns < self._settings.max_returns:
            return ""
        return f"it was moved away from node {pod.node} and its owner's pods came back {departure.returns} times"

    def _is_barred(self, owner_uid: str, node: str) -> bool:
        """Within the cooldown, and for as long as the owner exists once its pods came back too often."""
        departure = self._departures.get((owner_uid, node))
        if departure is None:
            return False
        within = self._now - departure.at < self._settings.cooldown_seconds
        return within or departure.returns >= self._settings.max_returns


def _needed_holds(move: Move) -> Iterator[str]:
    """The UIDs for which room must still be held."""
    if move.step in (MoveStep.HOLDING, MoveStep.EVICTING):
        yield move.pod_uid
    if move.for_uid and move.step is not MoveStep.TAKING:
        yield move.for_uid


def _pod_info(pod: ClusterPod) -> PodInfo:
    return PodInfo(pod.namespace, pod.name, pod.uid, pod.labels, pod.annotations, pod.workload)
