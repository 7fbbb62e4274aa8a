"""Defines plans of moves, as they are printed, kept in a file and handed over to the controller; and what it keeps for
the next leader: the moves under way, the nodes that pods left, and how far a plan is.

Times are Unix seconds.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from leadsman.cluster.resources import Resources
from leadsman.published.documents import Document

_Name = Annotated[str, Meta(min_length=1, max_length=253)]


class PlanOrigin(StrEnum):
    """Says who made a plan. REBALANCE: its moves obey the cooldowns of earlier ones; nobody asked for them."""

    OPTIMISE = "optimise"
    DRAIN = "drain"
    REBALANCE = "rebalance"


class PlannedMove(Struct, frozen=True, kw_only=True):
    """A move that is made only while the pod of this UID is on `from_node` and `to_node` has its UID.

    to_node_uid: of the Node object: another object of this name is another node.
    gain, cost: points, comparable within a plan. docs/moving-pods.md says what counts.
    """

    pod_uid: _Name
    namespace: _Name
    name: _Name
    from_node: _Name
    to_node: _Name
    to_node_uid: str = ""
    reason: str = ""
    gain: float = 0.0
    cost: float = 0.0


class LeftOut(Struct, frozen=True):
    """Names a pod that was to be moved and is not. why: a sentence without its subject."""

    namespace: str
    name: str
    node: str
    why: str


class MovePlan(Struct, frozen=True, kw_only=True):
    """Lists moves in their order. Each is valid when those before it were made, whether or not any later one is.

    taken_at: Unix seconds at which the cluster was as it was planned on; None: unknown, so the plan cannot be applied.
    not_after: Unix seconds after which no move begins; None: no such time.
    """

    origin: PlanOrigin
    taken_at: float | None
    moves: tuple[PlannedMove, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    not_after: float | None = None

    @property
    def id(self) -> str:
        """Returns a digest of moves and times: the same plan has the same id, wherever it is read."""
        return sha256(msgspec.json.encode(self)).hexdigest()[:16]


class PlanRequest(StrEnum):
    """Says what the controller shall do with a plan. PAUSE: no move begins until it is RUN again. ABORT: none begins
    any more."""

    RUN = "run"
    PAUSE = "pause"
    ABORT = "abort"


class HandedOverPlan(Struct, frozen=True):
    """A plan that was handed over, and what is asked for about it."""

    plan: MovePlan
    request: PlanRequest = PlanRequest.RUN


MOVE_PLAN = Document(HandedOverPlan, "leadsman-move-plan", "plan.json")
"""A plan that is handed over to the controller. The right to create it is the right to move pods."""


class MoveStep(StrEnum):
    """Names the steps of a move, in their order.

    HOLDING: its room is being held; nothing is lost when it ends here.
    EVICTING: the eviction is asked for.
    LANDING: the old pod ends, and its owner makes a new one, which has no node yet.
    TAKING: the new pod has a node; the pending pod is to take the room that was made.
    """

    HOLDING = "holding"
    EVICTING = "evicting"
    LANDING = "landing"
    TAKING = "taking"


class Move(Struct, frozen=True, kw_only=True):
    """One pod on its way to another node, with how far it is.

    pod_uid: of the pod that is evicted.
    plan, ordinal: the id of the MovePlan that it is part of, and which of its moves it is; "": of none.
    for_uid, for_name: the pending pod that room is made for; "": none.
    room: what of the pending pod's requests is free on `from_node` already, and held for it; None: nothing.
    since: when the step began.
    siblings: UIDs of its owner's pods before the eviction: any other is its replacement.
    gone_at: when the evicted pod was first seen to be gone; None: not yet.
    """

    pod_uid: str
    namespace: str
    name: str
    workload: str
    owner_uid: str
    from_node: str
    to_node: str
    requests: Resources
    reason: str
    since: float
    step: MoveStep = MoveStep.HOLDING
    plan: str = ""
    ordinal: int = 0
    for_uid: str = ""
    for_name: str = ""
    for_workload: str = ""
    room: Resources | None = None
    siblings: tuple[str, ...] = ()
    gone_at: float | None = None


class Departure(Struct, frozen=True):
    """Remembers that a pod of this owner was moved away from the node.

    returns: how many came back within the cooldown since.
    landed_on: where the new pod went; "": nowhere yet.
    """

    owner_uid: str
    node: str
    at: float
    returns: int = 0
    landed_on: str = ""


class RunState(StrEnum):
    """Says what has become of a plan that was handed over.

    REFUSED: nothing of it was begun. ABORTED: no further move begins; what is under way ends.
    """

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    ABORTED = "aborted"
    REFUSED = "refused"


class Outcome(StrEnum):
    """Says what has become of a move of a plan.

    SKIPPED: what it was planned for is gone: the pod, or one of the nodes. FAILED: it was tried, or could not be begun.
    """

    WAITING = "waiting"
    MOVING = "moving"
    MOVED = "moved"
    SKIPPED = "skipped"
    FAILED = "failed"


class MoveProgress(Struct, frozen=True):
    """Tells how far one move of a plan is.

    waiting_since: when something first kept it from beginning; None: nothing did.
    began_at: None: not yet.
    landed_on: the node of the pod that its owner made.
    """

    outcome: Outcome = Outcome.WAITING
    note: str = ""
    waiting_since: float | None = None
    began_at: float | None = None
    landed_on: str = ""


class PlanProgress(Struct, frozen=True):
    """Tells how far a plan is. plan: its id. note: why it is in this state. moves: in the plan's order."""

    plan: str
    state: RunState
    note: str = ""
    moves: tuple[MoveProgress, ...] = ()

    def count(self, outcome: Outcome) -> int:
        """Counts the moves that have this outcome."""
        return sum(each.outcome is outcome for each in self.moves)


def is_under_way(handed_over: HandedOverPlan | None, progress: PlanProgress | None) -> bool:
    """Tells whether a plan is carried out, is paused or waits to be seen: no other may take its place."""
    if progress is not None and progress.state in (RunState.RUNNING, RunState.PAUSED):
        return True
    if handed_over is None or handed_over.request is PlanRequest.ABORT:
        return False
    return progress is None or progress.plan != handed_over.plan.id


class MoverState(Struct, frozen=True):
    """Everything that the mover knows; it writes this before it does anything.

    started: when moves of re-placement began, within the last minute.
    progress: of the plan that was handed over last; None: none ever was.
    """

    moves: tuple[Move, ...] = ()
    departures: tuple[Departure, ...] = ()
    started: tuple[float, ...] = ()
    progress: PlanProgress | None = None


MOVES = Document(MoverState, "leadsman-replacement", "state.json")
"""Moves under way and how far a plan is. The controller alone writes it."""
