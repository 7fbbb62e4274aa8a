"""What re-placement is told, what it remembers and what it does. Times are Unix seconds: they outlive a process."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from leadsman.cluster.constraints import Toleration
from leadsman.cluster.resources import Resources


class ReplacementSettings(Struct, frozen=True):
    """What an operator chooses.

    hold_seconds: how long a delay must be over its bound, or a pod be pending without room, before anything is done.
    per_minute: most moves that begin within a minute.
    cooldown_seconds: how long pods of an owner are not moved away from, nor back to, a node that one of them left; and
        how long nothing is tried for a pod after a move for it failed.
    max_returns: after so many pods of an owner that came back to a node that one had left, none is moved from it again.
    hold_room_seconds: how long room may take to be held and the eviction to be allowed; then the move is rolled back.
    landing_seconds: how long the new pod may take to get a node, and then the pending one; grace periods count in.
    look_again_seconds: between two searches for one pod that has no fix.
    """

    hold_seconds: float = 60.0
    per_minute: int = 2
    cooldown_seconds: float = 600.0
    max_returns: int = 2
    hold_room_seconds: float = 30.0
    landing_seconds: float = 180.0
    look_again_seconds: float = 30.0


class MoveStep(StrEnum):
    """How far a move is.

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
    """One pod on its way to another node.

    pod_uid: of the pod that is evicted.
    for_uid, for_name: the pending pod that room is made for; "": the move is for the pod's own bound.
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
    for_uid: str = ""
    for_name: str = ""
    for_workload: str = ""
    room: Resources | None = None
    siblings: tuple[str, ...] = ()


class Departure(Struct, frozen=True):
    """A pod of this owner was moved away from the node. returns: how many came back within the cooldown since."""

    owner_uid: str
    node: str
    at: float
    returns: int = 0


class ReplacementState(Struct, frozen=True):
    """What outlives a process. Written before anything is done.

    started: when moves began, within the last minute.
    """

    moves: tuple[Move, ...] = ()
    departures: tuple[Departure, ...] = ()
    started: tuple[float, ...] = ()


class NoFix(Struct, frozen=True):
    """Nothing can be done for a pod.

    bound: in words: `edge-1 within 25 ms`.
    delay_ms: from where the pod is, or for a pending pod from the nearest candidate; None: unknown.
    source, age_seconds: of the delay; None: it does not age.
    why: the same words while the cause is the same.
    nearest: the node that comes closest; "": none does. misses_by: what it lacks.
    remedy: what would fix it.
    """

    pod_uid: str
    namespace: str
    name: str
    bound: str
    delay_ms: float | None
    source: str
    age_seconds: float | None
    why: str
    nearest: str
    misses_by: str
    remedy: str

    def __str__(self) -> str:
        delay = "unknown" if self.delay_ms is None else f"{self.delay_ms:.3g} ms"
        age = "" if self.age_seconds is None else f", {self.age_seconds:.0f} s ago"
        by = f" (by {self.source}{age})" if self.source else ""
        nearest = f" Nearest is node {self.nearest}: {self.misses_by}." if self.nearest else ""
        return f"bound {self.bound}, delay {delay}{by}: {self.why}.{nearest} To fix it, {self.remedy}."


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
    """What the next plan begins with.

    troubles: UID → what is wrong with the pod; forgotten with the process.
    """

    state: ReplacementState = ReplacementState()
    troubles: Mapping[str, Trouble] = MappingProxyType({})


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


ReplacementAction = HoldRoom | ReleaseHold | EvictPod


class MoveResult(StrEnum):
    """How a move ended.

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
    """A move that ended with this plan. note: a sentence."""

    move: Move
    result: MoveResult
    note: str


class ReplacementPlan(Struct, frozen=True):
    """What to do now, in this order, once `memory.state` is written.

    ended: the moves that this plan ended.
    waiting: UID → why a pod for which there is a fix waits.
    """

    actions: tuple[ReplacementAction, ...]
    memory: ReplacementMemory
    ended: tuple[EndedMove, ...] = ()
    waiting: Mapping[str, str] = MappingProxyType({})

    @property
    def no_fix(self) -> Mapping[str, NoFix]:
        """UID → report, of the pods for which nothing can be done."""
        troubles = self.memory.troubles.items()
        return {uid: trouble.report for uid, trouble in troubles if trouble.report is not None}
