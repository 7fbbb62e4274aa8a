"""Defines what the controller publishes of dead nodes, held room and backups. Times are Unix seconds."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from leadsman.cluster.resources import Resources
from leadsman.published.documents import Document

NotNegative = Annotated[float, Meta(ge=0.0)]


class PodRecovery(Struct, frozen=True):
    """Tells how far the recovery of one pod of a dead node is; the pod is known by its old UID.

    backup: the node that its room is held on.
    deleted_at: since when its deletion has been asked for with the room held.
    newest_sibling_at: when the owner's newest pod was created, by the API server's clock: its replacement is newer.
    replacement: its name; "": there is none yet.
    bound_at, running_at: of the replacement; None: not yet.
    """

    namespace: str
    name: str
    owner_uid: str
    backup: str
    deleted_at: float
    newest_sibling_at: float
    replacement: str = ""
    replaced_on: str = ""
    bound_at: float | None = None
    running_at: float | None = None


class DeadNode(Struct, frozen=True):
    """A dead node that was failed over, with its timeline.

    uid: of the Node object: another object of this name is another node.
    healthy_since: when it was first seen healthy after that; None: it has not returned.
    pods: old UID → what became of it; of those that run again only the last at each step.
    given_up: pods that did not run again within the budget's window, of which nothing more is known.
    alive_at: when it gave a sign of life that no new verdict has refuted; None: it gave none, or is dead anew.
    """

    uid: str
    reason: str
    first_lost_at: float | None
    suspect_at: float | None
    dead_at: float
    tainted_at: float | None = None
    healthy_since: float | None = None
    pods: Mapping[str, PodRecovery] = {}
    given_up: int = 0
    alive_at: float | None = None

    @property
    def steps(self) -> Mapping[str, float]:
        """Maps each step done to seconds since the first sign of the death; for pods, the last one's."""
        pods = self.pods.values()
        at = {
            "suspect": self.suspect_at,
            "dead": self.dead_at,
            "tainted": self.tainted_at,
            "deleted": _last([pod.deleted_at for pod in pods]),
            "bound": _last([None] * self.given_up + [pod.bound_at for pod in pods]),
            "running": _last([None] * self.given_up + [pod.running_at for pod in pods]),
        }
        first = next(time for time in (self.first_lost_at, self.suspect_at, self.dead_at) if time is not None)
        return {step: time - first for step, time in at.items() if time is not None}


def _last(times: Sequence[float | None]) -> float | None:
    """Returns when it was done for all; None: it was not."""
    done = [time for time in times if time is not None]
    return max(done) if done and len(done) == len(times) else None


class Hold(Struct, frozen=True):
    """Keeps room that was released on a node for a pod's replacement. Until then nobody else is let there.

    owner_uid: the controller of the pod, and of its replacement.
    pod_uid: of the pod that was deleted.
    only: the owner's pods may go nowhere else either.
    for_uid: the pending pod that a move makes this room for; "": it is for the pod's replacement.
    """

    node: str
    owner_uid: str
    requests: Resources
    until: float
    pod_uid: str = ""
    only: bool = False
    for_uid: str = ""


class RecoveryState(Struct, frozen=True):
    """Everything that a recovery leaves behind for both extenders and the next leader.

    refused: node → why bounded pods are kept off it: the dead and the suspect ones.
    dead: node → what was done about it.
    spent: when a node was failed over, within the budget's window.
    withheld: node → why it is dead and nothing is done.
    """

    refused: Mapping[str, str] = {}
    dead: Mapping[str, DeadNode] = {}
    spent: tuple[float, ...] = ()
    withheld: Mapping[str, str] = {}
    holds: tuple[Hold, ...] = ()


class LastRoundTrips(Struct, frozen=True):
    """Delays between a node and the backups of the pods bound to it, as they were measured before it fell silent.

    measured_at: when.
    rtt_ms: backup node → round trip, never negative.
    """

    measured_at: float
    rtt_ms: Mapping[str, NotNegative] = {}


class SelfHealingState(Struct, frozen=True):
    """Everything in ConfigMap `leadsman-self-healing`, key `state.json`, which the controller publishes.

    The controller writes it before it acts; extenders and the next leader read it.

    recovery: what the next plan begins with.
    published_at: when it was written. A hold lasts for `until - published_at` after that.
    last_round_trips: dead or suspect node that delay bounds are to → its last delays. Nobody can measure them any more,
        and a replacement that is bound to the node is judged by them. Only those to nodes that are backups.
    backup_owners: node → UIDs of the controllers whose pods have their backup there: for them the placeholders there
        may be evicted, and for nobody else.
    """

    recovery: RecoveryState = RecoveryState()
    published_at: float = 0.0
    last_round_trips: Mapping[str, LastRoundTrips] = {}
    backup_owners: Mapping[str, tuple[str, ...]] = {}


SELF_HEALING = Document(SelfHealingState, "leadsman-self-healing", "state.json")
"""The document of what extenders and the next leader must know."""


# A leader of backups leaves behind where each pod's backup is, and the delays to it. After a failure neither can be
# found out: the delays to a dead node are not measured any more, and without them no plan would come to the same
# backups.


class RememberedBackup(Struct, frozen=True):
    """Keeps one pod's backup and the delays to it.

    node: its backup.
    owner_uid: the controller of the pod.
    rtt_ms: reference node of the pod's bounds → round trip to `node` when it was last known.
    """

    node: str
    owner_uid: str
    rtt_ms: Mapping[str, float] = {}


class PodBackup(Struct, frozen=True):
    """Tells people of one pod's backup. node: its backup; "": there is none. reason: why it is not covered; "" when
    it is."""

    node: str
    reason: str

    def __str__(self) -> str:
        if not self.reason:
            return f"covered by node {self.node}"
        return f"not covered by node {self.node} yet: {self.reason}" if self.node else f"uncovered: {self.reason}"


class BackupMemory(Struct, frozen=True):
    """Remembers the backups of all bounded pods for the next leader.

    measured_at: Unix seconds.
    pods: UID → backup.
    uncovered: UID → why the pod is not covered now. One that is in `pods` too has a backup that does not hold its room.
    """

    measured_at: float = 0.0
    pods: Mapping[str, RememberedBackup] = {}
    uncovered: Mapping[str, str] = {}

    def of_pod(self, uid: str) -> PodBackup | None:
        """Returns the pod's backup, or why it has none. None: the pod has no bound, asks for no backup, or is not
        planned for yet."""
        backup, reason = self.pods.get(uid), self.uncovered.get(uid, "")
        return PodBackup(backup.node if backup else "", reason) if backup or reason else None


BACKUPS = Document(BackupMemory, "leadsman-backups", "backups.json.gz", compressed=True)
"""Each pod's backup, for the next leader and for explanations."""
