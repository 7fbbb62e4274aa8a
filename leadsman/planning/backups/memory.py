"""What outlives a leader of backups, as bytes for a ConfigMap: where each pod's backup is, and the delays to it.

After a failure neither can be found out: the delays to a dead node are not measured any more, and without them no plan
would come to the same backups. Compressed, because a thousand pods take 90 KB of JSON.
"""

import gzip
import io
import zlib
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from leadsman.runtime.decode_errors import UNREADABLE, explain

MAX_BYTES = 900 << 10
"""Compressed: the API server takes 1 MiB of data in a ConfigMap."""

MAX_JSON_BYTES = 32 << 20


class UnreadableMemory(ValueError):
    """What stands there cannot be read: which field, what is wrong with it."""


class MemoryTooLarge(ValueError):
    """There are too many backups for one ConfigMap."""


class RememberedBackup(Struct, frozen=True):
    """One pod's.

    node: its backup.
    owner_uid: the controller of the pod.
    rtt_ms: reference node of the pod's bounds → round trip to `node` when it was last known.
    """

    node: str
    owner_uid: str
    rtt_ms: Mapping[str, float] = MappingProxyType({})


class PodBackup(Struct, frozen=True):
    """What to tell about one pod. node: its backup; "": there is none. reason: why it is not covered; "" when it is."""

    node: str
    reason: str

    def __str__(self) -> str:
        if not self.reason:
            return f"covered by node {self.node}"
        return f"not covered by node {self.node} yet: {self.reason}" if self.node else f"uncovered: {self.reason}"


class BackupMemory(Struct, frozen=True):
    """What is remembered of all bounded pods.

    measured_at: Unix seconds.
    pods: UID → backup.
    uncovered: UID → why the pod is not covered now. One that is in `pods` too has a backup that does not hold its room.
    """

    measured_at: float = 0.0
    pods: Mapping[str, RememberedBackup] = MappingProxyType({})
    uncovered: Mapping[str, str] = MappingProxyType({})

    def of_pod(self, uid: str) -> PodBackup | None:
        """None: the pod has no bound, asks for no backup, or is not planned for yet."""
        backup, reason = self.pods.get(uid), self.uncovered.get(uid, "")
        return PodBackup(backup.node if backup else "", reason) if backup or reason else None


def encode(memory: BackupMemory) -> bytes:
    """Compressed JSON. MemoryTooLarge."""
    data = gzip.compress(_ENCODER.encode(memory), compresslevel=6, mtime=0)
    if len(data) > MAX_BYTES:
        raise MemoryTooLarge(
            f"{len(memory.pods):,} backups take {len(data):,} bytes; at most {MAX_BYTES:,} are allowed"
        )
    return data


def decode(data: bytes) -> BackupMemory:
    """The memory of its bytes. UnreadableMemory."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            text = stream.read(MAX_JSON_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableMemory(f"not gzip: {error}") from error
    if len(text) > MAX_JSON_BYTES:
        raise UnreadableMemory(f"more than {MAX_JSON_BYTES:,} bytes of JSON")
    try:
        return _DECODER.decode(text)
    except UNREADABLE as error:
        path, what = explain(error)
        raise UnreadableMemory(f"{path}: {what}") from error


_ENCODER = msgspec.json.Encoder(enc_hook=dict)
_DECODER = msgspec.json.Decoder(BackupMemory)
