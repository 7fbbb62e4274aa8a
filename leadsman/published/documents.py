"""Writes a value as JSON for a ConfigMap, and reads it. Fields that a reader does not know are skipped."""

import gzip
import io
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from leadsman.kube.objects import IdentifiedObject
from leadsman.runtime.decode_errors import UNREADABLE, explain

T = TypeVar("T", bound=Struct)

MAX_BYTES = 900 << 10
"""The API server takes 1 MiB of data in a ConfigMap."""

MAX_DECOMPRESSED_BYTES = 32 << 20


class BadDocument(ValueError):
    """The document cannot be read; the text names the field and what is wrong with it."""


class DocumentTooLarge(BadDocument):
    """The value is too large for any ConfigMap."""


class ConfigMapObject(IdentifiedObject, frozen=True, rename="camel"):
    """A ConfigMap, one key of which may hold a document."""

    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}


class Document(Generic[T]):
    """A value under one key of a ConfigMap in Leadsman's namespace.

    kind: of the value.
    compressed: whether it is gzip in `binaryData`: a thousand backups take 90 KB of JSON.
    """

    def __init__(self, kind: type[T], config_map: str, key: str, *, compressed: bool = False) -> None:
        self.kind, self.config_map, self.key, self.compressed = kind, config_map, key, compressed

    def read(self, found: ConfigMapObject) -> T | None:
        """Reads the value in a ConfigMap; None: it holds none. Raises BadDocument."""
        text, binary = found.data.get(self.key), found.binary_data.get(self.key)
        if text is None and binary is None:
            return None
        try:
            data = b64decode(binary, validate=True) if binary is not None else str(text).encode()
        except ValueError as error:
            raise BadDocument(f"not base64: {error}") from error
        return self.decode(data)

    def fields(self, value: T) -> Mapping[str, Any]:
        """Returns the fields of the ConfigMap that hold the value. Raises DocumentTooLarge."""
        data = self.encode(value)
        if self.compressed:
            return {"binaryData": {self.key: b64encode(data).decode()}}
        return {"data": {self.key: data.decode()}}

    def encode(self, value: T) -> bytes:
        """Returns the value's bytes. Raises DocumentTooLarge."""
        if not self.compressed:
            return encode(value)
        return _checked(gzip.compress(_ENCODER.encode(value), compresslevel=6, mtime=0))

    def decode(self, data: bytes) -> T:
        """Returns the value of these bytes. Raises BadDocument."""
        return _decoded(_decompressed(data) if self.compressed else _checked(data), self.kind)


def encode(value: Struct) -> bytes:
    """Returns the value's JSON, as UTF-8. Raises DocumentTooLarge."""
    return _checked(_ENCODER.encode(value))


def decode(text: bytes, kind: type[T]) -> T:
    """Returns the value of this JSON. Raises BadDocument."""
    return _decoded(_checked(text), kind)


def _decompressed(data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            text = stream.read(MAX_DECOMPRESSED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadDocument(f"not gzip: {error}") from error
    if len(text) > MAX_DECOMPRESSED_BYTES:
        raise DocumentTooLarge(f"it has more than {MAX_DECOMPRESSED_BYTES:,} bytes of JSON")
    return text


def _decoded(text: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE as error:
        path, what = explain(error)
        raise BadDocument(f"{path}: {what}") from error


def _checked(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise DocumentTooLarge(f"it has {len(data):,} bytes; at most {MAX_BYTES:,} are allowed")
    return data


_ENCODER = msgspec.json.Encoder(enc_hook=dict)
"""msgspec itself encodes no mapping but a dict."""
