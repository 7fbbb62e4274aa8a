"""What outlives a process: moves under way, nodes that pods left, and how far a plan is. Times are Unix seconds."""

from enum import StrEnum

from msgspec import Struct

from leadsman.planning.moves.model import Departure, Move


class RunState(StrEnum):
    """Of a plan that was handed over.

    REFUSED: nothing of it was begun. ABORTED: no further move begins; what is under way ends.
    """

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    ABORTED = "aborted"
    REFUSED = "refused"


class Outcome(StrEnum):
    """Of one move of a plan.

    SKIPPED: what it was planned for is gone: the pod, or one of the nodes. FAILED: it was tried, or could not be begun.
    """

    WAITING = "waiting"
    MOVING = "moving"
    MOVED = "moved"
    SKIPPED = "skipped"
    FAILED = "failed"


class MoveProgress(Struct, frozen=True):
    """Of one move.

    waiting_since: when something first kept it from beginning; None: nothing did.
    began_at: None: not yet.
    landed_uid, landed_on: the pod that its owner made, and its node.
    """

    outcome: Outcome = Outcome.WAITING
    note: str = ""
    waiting_since: float | None = None
    began_at: float | None = None
    landed_uid: str = ""
    landed_on: str = ""


class PlanProgress(Struct, frozen=True):
    """Of one plan. plan: its id. note: why it is in this state. moves: in the plan's order."""

    plan: str
    state: RunState
    note: str = ""
    moves: tuple[MoveProgress, ...] = ()

    def count(self, outcome: Outcome) -> int:
        """How many moves have this outcome."""
        return sum(each.outcome is outcome for each in self.moves)


class MoverState(Struct, frozen=True):
    """All of it. Written before anything is done.

    started: when moves of re-placement began, within the last minute.
    progress: of the plan that was handed over last; None: none ever was.
    """

    moves: tuple[Move, ...] = ()
    departures: tuple[Departure, ...] = ()
    started: tuple[float, ...] = ()
    progress: PlanProgress | None = None
