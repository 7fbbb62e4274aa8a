"""Keeps what a leader of backups leaves behind: where each pod's backup is, and the delays to it.

After a failure neither can be found out: the delays to a dead node are not measured any more, and without them no plan
would come to the same backups.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from leadsman.published.documents import Document


class RememberedBackup(Struct, frozen=True):
    """Keeps one pod's backup and the delays to it.

    node: its backup.
    owner_uid: the controller of the pod.
    rtt_ms: reference node of the pod's bounds → round trip to `node` when it was last known.
    """

    node: str
    owner_uid: str
    rtt_ms: Mapping[str, float] = MappingProxyType({})


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
    pods: Mapping[str, RememberedBackup] = MappingProxyType({})
    uncovered: Mapping[str, str] = MappingProxyType({})

    def of_pod(self, uid: str) -> PodBackup | None:
        """Returns the pod's backup, or why it has none. None: the pod has no bound, asks for no backup, or is not
        planned for yet."""
        backup, reason = self.pods.get(uid), self.uncovered.get(uid, "")
        return PodBackup(backup.node if backup else "", reason) if backup or reason else None


BACKUPS = Document(BackupMemory, "leadsman-backups", "backups.json.gz", compressed=True)
"""Each pod's backup, for the next leader and for explanations."""
