"""Keeps published documents in their ConfigMaps, so that the next leader goes on where this one stopped.

A write carries the version that was read, so two leaders never overwrite each other.
"""

from typing import Any, Generic, TypeVar

from msgspec import Struct

from controller.keeper import Tools
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.kube.resources import CONFIG_MAPS
from leadsman.published.documents import ConfigMapObject, Document

T = TypeVar("T", bound=Struct)


class DocumentObject(Generic[T]):
    """Keeps one document in its ConfigMap, and reads it before it writes."""

    def __init__(self, client: ApiClient, namespace: str, document: Document[T]) -> None:
        self._client, self._namespace, self._document = client, namespace, document
        self._version = ""

    async def read(self) -> T | None:
        """Returns the value; None: there is none yet. Raises BadDocument or ApiError."""
        path = CONFIG_MAPS.path(self._namespace, self._document.config_map)
        try:
            found = await self._client.get(path, ConfigMapObject)
        except NotFound:
            self._version = ""
            return None
        self._version = found.metadata.resource_version
        return self._document.read(found)

    async def write(self, value: T) -> None:
        """Writes the value. DocumentTooLarge; raises Conflict when somebody else wrote since it was read; raises
        ApiError."""
        document = self._document
        metadata: dict[str, Any] = {
            "name": document.config_map,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/part-of": "leadsman"},
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **document.fields(value)}
        if self._version:
            metadata["resourceVersion"] = self._version
            path = CONFIG_MAPS.path(self._namespace, document.config_map)
            written = await self._client.replace(path, body, ConfigMapObject)
        else:
            written = await self._client.create(CONFIG_MAPS.path(self._namespace), body, ConfigMapObject)
        self._version = written.metadata.resource_version


class Memory(Generic[T]):
    """Keeps a document for the next leader: it is read once, and written before what it says is done.

    value: None until it is read, and after a write that failed, because another replica may have written.
    """

    def __init__(self, tools: Tools, document: Document[T], empty: T) -> None:
        """empty: where there is none yet."""
        self.value: T | None = None
        self._object, self._empty = DocumentObject(tools.client, tools.namespace, document), empty
        self._is_dry_run = tools.is_dry_run

    async def read(self) -> T:
        """Returns the value. Raises BadDocument or ApiError."""
        if self.value is None:
            self.value = await self._object.read() or self._empty
        return self.value

    async def write(self, value: T) -> None:
        """Keeps the value; a dry run does so in this process only. Raises DocumentTooLarge, Conflict or ApiError."""
        try:
            if not self._is_dry_run:
                await self._object.write(value)
        except ApiError:
            self.forget()
            raise
        self.value = value

    def forget(self) -> None:
        """Forgets the value, so that it is read again."""
        self.value = None
