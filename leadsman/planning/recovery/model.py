"""What recovery is told and what it does. What it remembers is published: `leadsman.published.self_healing`."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from leadsman.cluster.resources import Resources
from leadsman.kube.names import DOMAIN
from leadsman.published.self_healing import RecoveryState

UNREACHABLE_TAINT = f"{DOMAIN}/unreachable"


class NodeCondition(StrEnum):
    """What detection says of a node."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    DEAD = "dead"


class ObservedNode(Struct, frozen=True):
    """What detection says of a node.

    reason: a sentence: who says what.
    fresh: its agent reports now.
    first_lost_at, suspect_at, dead_at: None: not yet.
    """

    condition: NodeCondition
    reason: str = ""
    fresh: bool = True
    first_lost_at: float | None = None
    suspect_at: float | None = None
    dead_at: float | None = None


class RecoveryBudget(Struct, frozen=True):
    """How much may be done.

    least_nodes, nodes_ratio: nodes that may be failed over within `window_seconds`: the larger of the two.
    silent_zone_ratio: nothing is done in a zone of which more than this share is not healthy.
    fresh_ratio: nothing is done while a smaller share of all agents reports.
    hold_seconds: how long released room is kept for the pod that it was released for.
    return_seconds: how long a node must be healthy again before its taint goes.
    """

    least_nodes: int = 1
    nodes_ratio: float = 0.1
    window_seconds: float = 600.0
    silent_zone_ratio: float = 0.5
    fresh_ratio: float = 0.5
    hold_seconds: float = 60.0
    return_seconds: float = 15.0


FAILOVER_OFF = RecoveryBudget(least_nodes=0, nodes_ratio=0.0)


class TaintNode(Struct, frozen=True):
    """Add the taint to the node with this UID."""

    node: str
    uid: str
    reason: str


class UntaintNode(Struct, frozen=True):
    """Remove the taint from the node."""

    node: str
    uid: str
    reason: str


class ReleaseRoom(Struct, frozen=True):
    """Make the node's placeholders smaller by this much, or delete as many as that takes."""

    node: str
    requests: Resources
    reason: str


class DeletePod(Struct, frozen=True):
    """Delete the pod with this UID, with its own grace period, so that its owner makes another one."""

    uid: str
    namespace: str
    name: str
    node: str
    reason: str


RecoveryAction = TaintNode | UntaintNode | ReleaseRoom | DeletePod


class RecoveryPlan(Struct, frozen=True):
    """What to do now, in this order, once `state` is written.

    stays: UID → why a pod of a dead node is not deleted.
    """

    actions: tuple[RecoveryAction, ...]
    state: RecoveryState
    stays: Mapping[str, str]
