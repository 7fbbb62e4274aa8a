"""Applies lists and watch events to a view of objects, and says what changed. Pure."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Generic, Protocol, TypeVar

from msgspec import Raw, Struct

from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import Gone, MalformedResponse, Status, error_from_response
from leadsman.kube.objects import IdentifiedObject

ObjectKey = tuple[str, str]
"""Namespace ("" for an object without one) and name."""


class MinimalMetadata(Protocol):
    """The metadata that a view needs. ObjectMeta has it; a follower of many objects may decode only this."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class HasMetadata(Protocol):
    """An object of the API."""

    @property
    def metadata(self) -> MinimalMetadata: ...


T = TypeVar("T", bound=HasMetadata)


class ChangeType(Enum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ObjectChange(Struct, Generic[T], frozen=True):
    """A change of one object.

    object: as it is now; if it was deleted, as it was last.
    old: as the view had it before; None when it had not.

    An object that was replaced by another one of the same name is two changes: deleted, added.
    """

    kind: ChangeType
    object: T
    old: T | None = None


def object_key(metadata: MinimalMetadata) -> ObjectKey:
    """The object's namespace and name."""
    return metadata.namespace, metadata.name


def view_from_list(
    before: Mapping[ObjectKey, T], items: Iterable[T]
) -> tuple[dict[ObjectKey, T], list[ObjectChange[T]]]:
    """The view of a complete list, and how it differs from the view before."""
    view = {object_key(item.metadata): item for item in items}
    changes = [ObjectChange(ChangeType.DELETED, old, old) for key, old in before.items() if key not in view]
    for key, item in view.items():
        changes += _put_changes(before.get(key), item)
    return view, changes


def apply_put(view: dict[ObjectKey, T], item: T) -> list[ObjectChange[T]]:
    """Puts the object into the view, which is altered."""
    key = object_key(item.metadata)
    old, view[key] = view.get(key), item
    return _put_changes(old, item)


def apply_delete(view: dict[ObjectKey, T], key: ObjectKey, last: T | None) -> list[ObjectChange[T]]:
    """Removes the object from the view, which is altered. last: as it was when it was deleted, if that is known."""
    old = view.pop(key, None)
    return [ObjectChange(ChangeType.DELETED, last or old, old)] if old is not None else []


def _put_changes(old: T | None, new: T) -> list[ObjectChange[T]]:
    if old is None:
        return [ObjectChange(ChangeType.ADDED, new)]
    if old.metadata.uid != new.metadata.uid:
        return [ObjectChange(ChangeType.DELETED, old, old), ObjectChange(ChangeType.ADDED, new)]
    return [ObjectChange(ChangeType.MODIFIED, new, old)] if _is_newer(old.metadata, new.metadata) else []


def _is_newer(old: MinimalMetadata, new: MinimalMetadata) -> bool:
    """A resumed watch may repeat versions that the view already has."""
    return not new.resource_version or old.resource_version != new.resource_version


# Applies the lines of a watch to a view.


class WatchEvent(Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: Raw


class WatchBatch(Struct, Generic[T]):
    """The events of some lines, applied to a view.

    view: altered by each line.
    changes: what the lines changed.
    problems: one text for each object that could not be decoded.
    """

    view: dict[ObjectKey, T]
    changes: list[ObjectChange[T]]
    object_type: type[T]
    problems: list[str] = []

    def apply_line(self, line: bytes, resume: str) -> str:
        """The resourceVersion to resume at after this line. Gone or another ApiError when the line says so."""
        event = decode_json(line, WatchEvent)
        if event.type == "ERROR":
            status = decode_json(event.object, Status)
            raise error_from_response(status.code, bytes(event.object))
        meta = decode_json(event.object, IdentifiedObject).metadata
        _check_version_order(resume, meta.resource_version)
        if event.type != "BOOKMARK":
            self._change(event, object_key(meta))
        return meta.resource_version or resume

    def _change(self, event: WatchEvent, key: ObjectKey) -> None:
        """An object that cannot be decoded stays as the view has it, unless it was deleted."""
        item = self._decoded(event.object)
        if event.type == "DELETED":
            self.changes += apply_delete(self.view, key, item)
        elif item is not None:
            self.changes += apply_put(self.view, item)

    def _decoded(self, raw: Raw) -> T | None:
        try:
            return decode_json(raw, self.object_type)
        except MalformedResponse as error:
            self.problems.append(str(error))
            return None


_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)
"""A resourceVersion of etcd: 64 bits."""


def _check_version_order(before: str, now: str) -> None:
    """An API server whose etcd was restored from a backup silently repeats versions that it had sent before."""
    if _NUMBER.fullmatch(before) and _NUMBER.fullmatch(now) and int(now) < int(before):
        raise Gone(f"resourceVersion went back from {before} to {now}: the store was restored")
