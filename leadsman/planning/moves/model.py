"""What holds for every move of a pod, what is done for it, and how it ends."""

from enum import StrEnum

from msgspec import Struct

from leadsman.cluster.constraints import Toleration
from leadsman.cluster.resources import Resources
from leadsman.published.moves import Move


class MoverSettings(Struct, frozen=True, kw_only=True):
    """What holds for every move.

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
    """A move that ended with this plan.

    note: a sentence.
    landed_uid, landed_on: the new pod and its node; "": it has none.
    """

    move: Move
    result: MoveResult
    note: str
    landed_uid: str = ""
    landed_on: str = ""
