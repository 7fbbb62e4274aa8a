"""Follows which backup each pod has, as the controller publishes it: for explanations only.

What is published is kept as it came, compressed, and read when somebody asks: it says nothing to a decision.
"""

import logging
from base64 import b64decode
from collections.abc import Sequence

from msgspec import Struct, field

from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import ObjectIdentity
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import CONFIG_MAPS
from leadsman.published.backups import BACKUPS, BackupMemory, PodBackup
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)


class _BinaryData(Struct, frozen=True, gc=False):
    backups: str = field(default="", name=BACKUPS.key)


class _ConfigMap(Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectIdentity = ObjectIdentity()
    binary_data: _BinaryData = _BinaryData()


class BackupFollower:
    """Keeps what is published. Its `reflector` runs as one task; `of_pod` may be asked from any thread.

    namespace: of the ConfigMap.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._published = ""
        self._read: tuple[str, BackupMemory] = ("", BackupMemory())
        options = ListOptions(CONFIG_MAPS, namespace, field_selector=f"metadata.name={BACKUPS.config_map}")
        self.reflector = Reflector(client, options, _ConfigMap, on_changes=self._changed)
        self._problem = ProblemLog(
            _log,
            f"cannot read ConfigMap {namespace}/{BACKUPS.config_map}; explanations have the backups read before",
            f"ConfigMap {namespace}/{BACKUPS.config_map} is read again",
        )

    def of_pod(self, uid: str) -> PodBackup | None:
        """The backup of the pod, or why it has none; None: nothing is published of it."""
        published, (read, known) = self._published, self._read
        if published != read:
            known = self._decoded(published, known)
            self._read = published, known
        return known.of_pod(uid)

    def _decoded(self, published: str, before: BackupMemory) -> BackupMemory:
        if not published:
            return BackupMemory()
        try:
            found = BACKUPS.decode(b64decode(published, validate=True))
        except ValueError as error:
            self._problem.report(error)
            return before
        self._problem.clear()
        return found

    def _changed(self, changes: Sequence[ObjectChange[_ConfigMap]]) -> None:
        change = changes[-1]
        self._published = "" if change.kind is ChangeType.DELETED else change.object.binary_data.backups
