"""Keeps for the next leader the moves under way, the nodes that pods left, and how far a plan is. Times are Unix
seconds."""

from enum import StrEnum

from msgspec import Struct

from leadsman.cluster.resources import Resources
from leadsman.published.documents import Document


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
