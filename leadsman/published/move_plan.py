"""Defines an ordered plan of moves, as it is printed, kept in a file and handed over to the controller."""

from enum import StrEnum
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

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
