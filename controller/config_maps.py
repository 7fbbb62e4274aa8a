"""Keeps what self-healing knows in two ConfigMaps, so that the next leader goes on where this one stopped.

`leadsman-self-healing` holds the state that extenders decide by; `leadsman-backups` holds what a leader needs, and what
extenders show.
A write carries the version that was read, so two leaders never overwrite each other.
"""

from base64 import b64decode, b64encode
from typing import Any

from msgspec import Struct

from leadsman.kube.client import ApiClient
from leadsman.kube.errors import NotFound
from leadsman.kube.names import BACKUPS_CONFIG_MAP, BACKUPS_KEY, SELF_HEALING_CONFIG_MAP, SELF_HEALING_KEY
from leadsman.kube.resources import Resource
from leadsman.planning.backups import memory as backup_memory
from leadsman.planning.backups.memory import BackupMemory
from leadsman.planning.recovery import codec
from leadsman.planning.recovery.model import SelfHealingState

CONFIG_MAPS = Resource("v1", "configmaps")


class _Metadata(Struct, rename="camel"):
    resource_version: str = ""


class _ConfigMap(Struct, rename="camel"):
    metadata: _Metadata
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class VersionedConfigMap:
    """One key of one ConfigMap, read before it is written."""

    def __init__(self, client: ApiClient, namespace: str, name: str, key: str) -> None:
        self._client, self._namespace, self._name, self._key = client, namespace, name, key
        self._version = ""

    async def read(self) -> str | bytes | None:
        """The value; None: there is none yet. ApiError."""
        try:
            found = await self._client.get(CONFIG_MAPS.path(self._namespace, self._name), _ConfigMap)
        except NotFound:
            self._version = ""
            return None
        self._version = found.metadata.resource_version
        if self._key in found.data:
            return found.data[self._key]
        binary = found.binary_data.get(self._key)
        return None if binary is None else b64decode(binary)

    async def write(self, value: str | bytes) -> None:
        """Writes the value. Conflict when somebody else wrote since it was read; ApiError."""
        metadata: dict[str, Any] = {
            "name": self._name,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/part-of": "leadsman"},
        }
        field, text = ("data", value) if isinstance(value, str) else ("binaryData", b64encode(value).decode())
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, field: {self._key: text}}
        if self._version:
            metadata["resourceVersion"] = self._version
            path = CONFIG_MAPS.path(self._namespace, self._name)
            written = await self._client.replace(path, body, _ConfigMap)
        else:
            written = await self._client.create(CONFIG_MAPS.path(self._namespace), body, _ConfigMap)
        self._version = written.metadata.resource_version


class SelfHealingStore:
    """Both ConfigMaps, in Leadsman's namespace."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._state = VersionedConfigMap(client, namespace, SELF_HEALING_CONFIG_MAP, SELF_HEALING_KEY)
        self._backups = VersionedConfigMap(client, namespace, BACKUPS_CONFIG_MAP, BACKUPS_KEY)

    async def read_state(self) -> SelfHealingState:
        """The published state; an empty one where there is none. codec.StateError, ApiError."""
        text = await self._state.read()
        return SelfHealingState() if text is None else codec.decode(text.encode() if isinstance(text, str) else text)

    async def write_state(self, state: SelfHealingState) -> None:
        """Publishes the state. Without the owners of backups where it is too large. Conflict, ApiError."""
        try:
            text = codec.encode(state)
        except codec.StateTooLarge:
            text = codec.encode(SelfHealingState(state.recovery, state.published_at, state.last_round_trips))
        await self._state.write(text.decode())

    async def read_backups(self) -> BackupMemory:
        """What the last leader wrote; an empty memory where there is none. UnreadableMemory, ApiError."""
        data = await self._backups.read()
        return backup_memory.decode(data) if isinstance(data, bytes) else BackupMemory()

    async def write_backups(self, memory: BackupMemory) -> None:
        """Writes the memory. MemoryTooLarge, Conflict, ApiError."""
        await self._backups.write(backup_memory.encode(memory))
