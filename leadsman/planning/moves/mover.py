"""One step of every move under way: from the cluster and what is remembered to actions.

A move goes through these steps, and each is planned only when the API server shows the one before:

1. Pods that hold room are created: on the node that the pod goes to, and on its own what is free of what a pending pod
   needs for which it makes room.
2. Once they are bound, everything is checked as if they were not there, and the eviction is asked for.
3. Once the pod ends, the room on its new node is released for the one that its owner makes.
4. Once that one has a node, the rest of the room is released for the pending pod.

A holding pod that belongs to no move is released: so a move that is given up is rolled back.
"""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.constraints import Toleration
from leadsman.cluster.model import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.planning.moves.search import Search, why_never_moved, why_not_evictable
from leadsman.planning.situation import Situation, violation
from leadsman.published.moves import Departure, Move, MoverState, MoveStep

# What holds for every move of a pod, what is done for it, and how it ends.


class MoverSettings(Struct, frozen=True, kw_only=True):
    """Limits of every move, whoever asks for it.

    cooldown_seconds: how long pods of an owner are not moved away from, nor back to, a node that one of them left; and
        how long nothing is tried for a pod after a move for it failed.
    max_returns: after so many pods of an owner that came back to a node that one had left, none is moved from it again.
    hold_room_seconds: how long room may take to be held and the eviction to be allowed; then the move is rolled back.
    landing_seconds: how long the new pod may take to get a node, and then the pending one; grace periods count in.
    """

    cooldown_seconds: float = 600.0
    max_returns: int = 2
    hold_room_seconds: float = 30.0
    landing_seconds: float = 180.0


REMADE_SECONDS = 30.0
"""An owner that makes no new pod within this time of the old one's end wants none: it was deleted, scaled down or
rolled out. Owners take a second, or 20 while kube-controller-manager elects another leader."""


class Departures:
    """Remembers which owners' pods left which nodes lately, and came back. A pod after a move is another one, known by
    its owner.

    now: Unix seconds.
    """

    def __init__(self, departures: Iterable[Departure], settings: MoverSettings, now: float) -> None:
        self._settings, self._now = settings, now
        self._by_key = {(each.owner_uid, each.node): replace(each, at=min(each.at, now)) for each in departures}

    def kept(self, owners: Collection[str]) -> tuple[Departure, ...]:
        """Returns those of these owners that still count."""
        every = self._by_key.values()
        return tuple(each for each in every if each.owner_uid in owners and (each.returns or self._is_recent(each)))

    def update(self, owner_uid: str, node: str, **fields: Any) -> None:
        """Notes something of the owner's pods that left the node; they left it now where nothing was noted before."""
        before = self._by_key.get((owner_uid, node), Departure(owner_uid, node, self._now))
        self._by_key[owner_uid, node] = replace(before, **fields)

    def forgive(self, owner_uid: str, node: str) -> None:
        """Forgets how often pods came back, as one has stayed away."""
        if (owner_uid, node) in self._by_key:
            self.update(owner_uid, node, returns=0)

    def returns(self, owner_uid: str, node: str) -> int:
        """Says how often pods of the owner came back to the node."""
        departure = self._by_key.get((owner_uid, node))
        return departure.returns if departure else 0

    def is_barred(self, owner_uid: str, node: str) -> bool:
        """Tells whether the owner's pods must not go to the node: within the cooldown, and for as long as the owner
        exists once its pods came back too often."""
        departure = self._by_key.get((owner_uid, node))
        return departure is not None and (self._is_recent(departure) or departure.returns >= self._settings.max_returns)

    def moved_lately(self, pod: ClusterPod) -> bool:
        """Tells whether a pod of its owner left its node, or came to it, within the cooldown."""
        return any(
            each.owner_uid == pod.owner_uid and pod.node in (each.node, each.landed_on) and self._is_recent(each)
            for each in self._by_key.values()
        )

    def gave_up(self, pod: ClusterPod) -> str:
        """Says why pods of its owner are not moved away from its node any more; "": they are."""
        returns = self.returns(pod.owner_uid, pod.node)
        if returns < self._settings.max_returns:
            return ""
        return f"it was moved away from node {pod.node} and its owner's pods came back {returns} times"

    def _is_recent(self, departure: Departure) -> bool:
        return self._now - departure.at < self._settings.cooldown_seconds


class HoldRoom(Struct, frozen=True):
    """Create a pod that holds room on the node for the pod with this UID, if there is none."""

    node: str
    for_uid: str
    requests: Resources
    tolerations: tuple[Toleration, ...]
    reason: str


class ReleaseHold(Struct, frozen=True):
    """Delete the holding pod with this UID."""

    uid: str
    namespace: str
    name: str
    reason: str


class EvictPod(Struct, frozen=True):
    """Ask the Eviction API to evict the pod with this UID."""

    uid: str
    namespace: str
    name: str
    node: str
    reason: str


MoveAction = HoldRoom | ReleaseHold | EvictPod


class MoveResult(StrEnum):
    """Says how a move ended.

    REPLACED: the pod has its new node, and the pending one its room.
    CANCELLED: nothing was evicted, because the cause is gone.
    ROLLED_BACK: nothing was evicted, because a step failed.
    RETURNED: the new pod went back to the node that was left.
    NOT_LANDED: the pod was evicted, and the new one or the pending one has no node in time.
    """

    REPLACED = "replaced"
    CANCELLED = "cancelled"
    ROLLED_BACK = "rolled-back"
    RETURNED = "returned"
    NOT_LANDED = "not-landed"


class EndedMove(Struct, frozen=True):
    """A move that ended with this plan.

    note: a sentence.
    landed_on: the new pod's node; "": it has none.
    """

    move: Move
    result: MoveResult
    note: str
    landed_on: str = ""


class Mover:
    """The moves of one cluster at one moment. `advance` those under way, `begin` others, `release_orphans` last.

    running_plan: the id of the plan that goes on; "": none does. A move of another that has evicted nothing is undone.
    avoid: nodes that are dead or suspect: nothing goes there, and what is on them is left to recovery.
    moves: under way. actions: in their order. ended: by this step.
    """

    def __init__(
        self,
        situation: Situation,
        state: MoverState,
        settings: MoverSettings,
        now: float,
        avoid: frozenset[str],
        running_plan: str,
    ) -> None:
        self.situation, self.now, self.avoid = situation, now, avoid
        self.cluster = cluster = situation.cluster
        self.moves: list[Move] = []
        self.actions: list[MoveAction] = []
        self.ended: list[EndedMove] = []
        self._settings, self._running_plan = settings, running_plan
        self._holds: dict[str, list[ClusterPod]] = {}
        for pod in cluster.pods.values():
            if pod.held_for is not None:
                self._holds.setdefault(pod.held_for, []).append(pod)
        self._owners = {pod.owner_uid for pod in cluster.pods.values()} | {move.owner_uid for move in state.moves}
        self.departures = Departures(state.departures, settings, now)

    @property
    def state(self) -> MoverState:
        """Returns what is to be remembered, without what others add to it."""
        return MoverState(tuple(self.moves), self.departures.kept(self._owners))

    def advance(self, move: Move) -> None:
        """Takes the next step of a move. The clock of the leader before may have been ahead."""
        move = replace(move, since=min(move.since, self.now))
        pod = self.cluster.pods.get(move.pod_uid)
        goes = pod is None or pod.terminating
        if move.step is MoveStep.EVICTING and goes:
            move = replace(move, step=MoveStep.LANDING, since=self.now)
            self.departures.update(move.owner_uid, move.from_node, at=self.now)
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

    def begin(self, move: Move) -> None:
        """Begins a move: the next step sees the room that it holds."""
        self.moves.append(move)
        self._hold_room(move)

    def release_orphans(self) -> None:
        """Deletes the holding pods that no move needs any more."""
        needed = {uid for move in self.moves for uid in _needed_holds(move)}
        for uid, pods in self._holds.items():
            for pod in pods:
                if uid not in needed and not pod.terminating:
                    reason = "the move that it held room for needs it no more"
                    self.actions.append(ReleaseHold(pod.uid, pod.namespace, pod.name, reason))

    def new_move(self, pod: ClusterPod, node: str, reason: str) -> Move:
        """Returns a move of the pod to the node."""
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
            since=self.now,
        )

    def search(self, situation: Situation | None = None, *, barred: bool = True) -> Search:
        """Returns a search for places, on this situation or the newest one.

        barred: whether nodes that a pod of the same owner left are no places.
        """
        is_barred = self.departures.is_barred if barred else lambda *_: False
        return Search(situation or self.situation, is_barred, self.avoid)

    def why_not_now(self, pod: ClusterPod) -> str:
        """Says which other move keeps one of this pod from beginning; "": none does."""
        if any(move.step is MoveStep.HOLDING for move in self.moves):
            return "another move is about to begin"
        return self.why_in_flight(pod)

    def why_in_flight(self, pod: ClusterPod) -> str:
        """Tells whether a pod is being moved whose place this one's bounds depend on, or a sibling; "": none is."""
        moved = {(move.namespace, move.workload.partition("/")[2]) for move in self.moves}
        waiting = {(move.for_name.partition("/")[0], move.for_workload.partition("/")[2]) for move in self.moves}
        if self.situation.related(pod) & (moved | waiting):
            return "a pod of its workload, or of one that bounds tie to it, is being moved"
        return ""

    def _prepare(self, move: Move, pod: ClusterPod) -> None:
        """Has room held, and then the pod evicted."""
        late = self.now - move.since >= self._settings.hold_room_seconds
        held = self._hold_room(move)
        if late or (held and (reason := self._why_impossible(move, pod))):
            doing = "the room was not held" if not held else "the eviction was not allowed"
            seconds = self._settings.hold_room_seconds
            self._end(move, MoveResult.ROLLED_BACK, f"{doing} within {seconds:g} s" if late else reason)
            return
        if not held or why_not_evictable(pod, self.cluster):
            self.moves.append(move)
            return
        # Again while the eviction is refused: the owner may add pods meanwhile.
        siblings = tuple(each.uid for each in self.cluster.pods.values() if each.owner_uid == pod.owner_uid)
        move = replace(move, step=MoveStep.EVICTING, siblings=siblings)
        self.moves.append(move)
        self.actions.append(EvictPod(pod.uid, pod.namespace, pod.name, pod.node, move.reason))

    def _hold_room(self, move: Move) -> bool:
        """Asks for the holding pods that are missing, and tells whether all are bound."""
        pod = self.cluster.pods[move.pod_uid]
        asked = [(move.pod_uid, move.to_node, move.requests, pod, f"pod {move.namespace}/{move.name}")]
        if move.room is not None and move.for_uid in self.cluster.pods:
            pending = self.cluster.pods[move.for_uid]
            asked.append((move.for_uid, move.from_node, move.room, pending, f"pod {move.for_name}"))
        bound = True
        for uid, node, requests, of, name in asked:
            there = [each for each in self._holds.get(uid, ()) if not each.terminating]
            bound = bound and any(each.node == node for each in there)
            if not there:
                reason = f"room on node {node} for {name}"
                self.actions.append(HoldRoom(node, uid, requests, of.constraints.tolerations, reason))
        return bound

    def _land(self, move: Move) -> None:
        """Waits until the new pod has a node."""
        if move.gone_at is None and move.pod_uid not in self.cluster.pods:
            move = replace(move, gone_at=self.now)
        new = [
            pod
            for pod in self.cluster.pods.values()
            if pod.owner_uid == move.owner_uid and pod.uid not in move.siblings and not pod.terminating
        ]
        landed = next((pod for pod in new if pod.node), None)
        if landed is not None:
            self._note_landing(move, landed.node)
        if landed is not None and landed.node == move.from_node:
            note = f"the new pod {landed.name} went back to node {move.from_node}"
            self._end(move, MoveResult.RETURNED, note, landed)
        elif landed is not None and move.for_uid and move.pod_uid not in self.cluster.pods:
            self._take(replace(move, step=MoveStep.TAKING, since=self.now))
        elif landed is not None and not move.for_uid:
            self._end(move, MoveResult.REPLACED, f"pod {landed.name} took its place on node {landed.node}", landed)
        elif not new and move.gone_at is not None and self.now - move.gone_at >= REMADE_SECONDS:
            note = f"its owner made no new pod within {REMADE_SECONDS:g} s of its end"
            self._end(move, MoveResult.NOT_LANDED, note)
        elif self.now - move.since >= self._settings.landing_seconds:
            note = f"its owner's new pod has no node after {self._settings.landing_seconds:g} s"
            self._end(move, MoveResult.NOT_LANDED, note)
        else:
            self.moves.append(move)

    def _note_landing(self, move: Move, node: str) -> None:
        owner, left = move.owner_uid, move.from_node
        if node == left:
            self.departures.update(owner, left, at=self.now, returns=self.departures.returns(owner, left) + 1)
        self.departures.update(owner, left, landed_on=node)

    def _take(self, move: Move) -> None:
        """Waits until the pending pod has taken the room."""
        pending = self.cluster.pods.get(move.for_uid)
        if pending is None or pending.node:
            taken = f"pod {move.for_name} has node {pending.node}" if pending else f"pod {move.for_name} is gone"
            self._end(move, MoveResult.REPLACED, taken)
        elif self.now - move.since >= self._settings.landing_seconds:
            reason = self.situation.verdict(pending).why_not(move.from_node)
            why = f": {reason}" if reason else ""
            self._end(move, MoveResult.NOT_LANDED, f"pod {move.for_name} has not taken node {move.from_node}{why}")
        else:
            self.moves.append(move)

    def _end(self, move: Move, result: MoveResult, note: str, landed: ClusterPod | None = None) -> None:
        self.ended.append(EndedMove(move, result, note, landed.node if landed else ""))
        if result is MoveResult.REPLACED:
            self.departures.forgive(move.owner_uid, move.from_node)

    def _why_needless(self, move: Move, pod: ClusterPod) -> str:
        """Says why a move that has evicted nothing yet has lost its cause; "": it has not."""
        if move.plan:
            return "" if move.plan == self._running_plan else "its plan does not go on"
        if not move.for_uid:
            return "" if violation(self.situation, pod) else "no measured delay is over the bound any more"
        pending = self.cluster.pods.get(move.for_uid)
        if pending is None or pending.terminating:
            return f"pod {move.for_name} is gone"
        return f"pod {move.for_name} has node {pending.node}" if pending.node else ""

    def _why_impossible(self, move: Move, pod: ClusterPod) -> str:
        """Says why the move may not be made as things are now, its own holding pods left out; "": it may."""
        own: dict[str, ClusterPod | None] = {
            each.uid: None for uid in (move.pod_uid, move.for_uid) for each in self._holds.get(uid, ())
        }
        search = self.search(self.situation.changed(own), barred=not move.plan)
        if reason := why_never_moved(pod):
            return reason
        if pod.node in self.avoid:
            return f"its node {pod.node} is dead or suspect"
        if not move.for_uid:
            return (
                ""
                if move.to_node in search.places(pod, move.to_node)
                else f"node {move.to_node} cannot take the pod any more"
            )
        pending = self.cluster.pods[move.for_uid]
        if search.fits(pending):
            return f"pod {move.for_name} fits without it"
        possible = move.to_node in search.landings(pending, pod, move.to_node)
        return "" if possible else f"the move would not make room for pod {move.for_name} any more"


def _needed_holds(move: Move) -> Iterator[str]:
    """Yields the UIDs for which room must still be held."""
    if move.step in (MoveStep.HOLDING, MoveStep.EVICTING):
        yield move.pod_uid
    if move.for_uid and move.step is not MoveStep.TAKING:
        yield move.for_uid
