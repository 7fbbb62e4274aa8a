"""Applies lists and watch events to a view of objects, and says what changed. Pure."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Generic, Protocol, TypeVar

from msgspec import Raw, Struct

from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import Gone, MalformedResponse, Status, error_from_response
from leadsman.kube.objects import IdentifiedObject, ObjectIdentity

ObjectKey = tuple[str, str]
"""Namespace ("" for an object without one) and name."""


class HasMetadata(Protocol):
    """An object of the API, which has metadata."""

    @property
    def metadata(self) -> ObjectIdentity: ...


T = TypeVar("T", bound=HasMetadata)


class ChangeType(Enum):
    """Says whether an object came, changed or went."""

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


def object_key(metadata: ObjectIdentity) -> ObjectKey:
    """Returns the object's namespace and name."""
    return metadata.namespace, metadata.name


def view_from_list(
    before: Mapping[ObjectKey, T], items: Iterable[T], undecoded: Iterable[ObjectKey] = ()
) -> tuple[dict[ObjectKey, T], list[ObjectChange[T]]]:
    """Returns the view of a complete list, and how it differs from the view before.

    undecoded: objects of the list that could not be decoded: they stay as the view had them."""
    view = {key: before[key] for key in undecoded if key in before}
    view |= {object_key(item.metadata): item for item in items}
    changes = [ObjectChange(ChangeType.DELETED, old, old) for key, old in before.items() if key not in view]
    for key, item in view.items():
        changes += _put_changes(before.get(key), item)
    return view, changes


def _put_changes(old: T | None, new: T) -> list[ObjectChange[T]]:
    if old is None:
        return [ObjectChange(ChangeType.ADDED, new)]
    if old.metadata.uid != new.metadata.uid:
        return [ObjectChange(ChangeType.DELETED, old, old), ObjectChange(ChangeType.ADDED, new)]
    version = new.metadata.resource_version  # A resumed watch may repeat versions that the view already has.
    return [] if version and version == old.metadata.resource_version else [ObjectChange(ChangeType.MODIFIED, new, old)]


# Applies the lines of a watch to a view.


class WatchEvent(Struct, frozen=True):
    """One line of a watch: an object, and what happened to it."""

    type: str
    object: Raw


class WatchBatch(Struct, Generic[T]):
    """Applies the events of some lines of a watch to a view.

    view: altered by each line.
    changes: what the lines changed.
    problems: one text for each object that could not be decoded.
    """

    view: dict[ObjectKey, T]
    changes: list[ObjectChange[T]]
    object_type: type[T]
    problems: list[str] = []

    def apply_line(self, line: bytes, resume: str) -> str:
        """Applies a line; returns the resourceVersion to resume at. Gone or another ApiError if it says so."""
        event = decode_json(line, WatchEvent)
        if event.type == "ERROR":
            status = decode_json(event.object, Status)
            raise error_from_response(status.code, bytes(event.object))
        meta = decode_json(event.object, IdentifiedObject).metadata
        now = meta.resource_version
        if _NUMBER.fullmatch(resume) and _NUMBER.fullmatch(now) and int(now) < int(resume):
            # An API server whose etcd was restored from a backup silently repeats versions that it had sent before.
            raise Gone(f"resourceVersion went back from {resume} to {now}: the store was restored")
        if event.type != "BOOKMARK":
            self._change(event, object_key(meta))
        return now or resume

    def _change(self, event: WatchEvent, key: ObjectKey) -> None:
        """An object that cannot be decoded stays as the view has it, unless it was deleted."""
        item: T | None = None
        try:
            item = decode_json(event.object, self.object_type)
        except MalformedResponse as error:
            self.problems.append(str(error))
        old = self.view.get(key)
        if event.type != "DELETED" and item is not None:
            self.view[key] = item
            self.changes += _put_changes(old, item)
        elif event.type == "DELETED" and old is not None:
            del self.view[key]
            self.changes.append(ObjectChange(ChangeType.DELETED, item or old, old))


_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)
"""A resourceVersion of etcd: 64 bits."""
