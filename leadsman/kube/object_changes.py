"""Applies lists and watch events to a view of objects, and says what changed. Pure."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

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
