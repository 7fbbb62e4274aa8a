"""What decisions know of self-healing: the view of its published state. Times are monotonic seconds, as `now` is."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from leadsman.decision.model import PodInfo

CRITICAL_PRIORITY = 2_000_000_000
"""From here on a pod is critical to the cluster (system-cluster-critical): nothing is withheld from it."""


class RoomHold(Struct, frozen=True):
    """Room on a node is kept for the pods of one owner until then.

    owner_uid: their controller.
    only: those pods may go nowhere else either, because one of them is being moved here.
    """

    owner_uid: str
    until: float
    only: bool = False


class SelfHealing(Struct, frozen=True):
    """What the controller published last, and the placeholders; a new object when anything changes.

    refused: node → why pods with delay bounds are kept off it: the dead and the suspect ones.
    holds: node → its holds, those that have ended too.
    backup_owners: node → UIDs of the controllers whose pods have their backup there.
    placeholders: UIDs of the pods that only hold room.
    read_at: when the API server last confirmed the state; None: it is not followed, or was never read.
    """

    refused: Mapping[str, str] = MappingProxyType({})
    holds: Mapping[str, tuple[RoomHold, ...]] = MappingProxyType({})
    backup_owners: Mapping[str, frozenset[str]] = MappingProxyType({})
    placeholders: frozenset[str] = frozenset()
    read_at: float | None = None

    def held_until(self, node: str, now: float) -> Mapping[str, float]:
        """Owner → when its last hold on the node ends, of those that have not ended."""
        active = [hold for hold in self.holds.get(node, ()) if hold.until > now]
        return {hold.owner_uid: hold.until for hold in sorted(active, key=lambda hold: hold.until)}

    def only_nodes(self, owner_uid: str, now: float) -> frozenset[str]:
        """The nodes to which pods of this owner are being moved, and to which alone they may go; empty: anywhere."""
        return frozenset(
            node
            for node, holds in self.holds.items()
            if any(hold.only and hold.owner_uid == owner_uid and hold.until > now for hold in holds)
        )


def never_withheld(pod: PodInfo) -> bool:
    """Whether the pod gets room whatever it is held for: the cluster or its node does not work without it."""
    return pod.priority >= CRITICAL_PRIORITY or pod.workload.startswith("daemonset/")
