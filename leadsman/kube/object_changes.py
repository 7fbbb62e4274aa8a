"""A view of the objects and how it changes. Pure: what a listing or a watch says, applied to what was known."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

ObjectKey = tuple[str, str]
"""Namespace ("" for what has none) and name."""


class MinimalMetadata(Protocol):
    """The metadata that a view needs. objects.Metadata has it; who keeps many objects may decode less."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class HasMetadata(Protocol):
    @property
    def metadata(self) -> MinimalMetadata: ...


T = TypeVar("T", bound=HasMetadata)


class ChangeType(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ObjectChange(Struct, Generic[T], frozen=True):
    """object: as it is now, or, deleted, as it was last seen. old: as it was known before; None when it was not.

    An object that was replaced by another one of its name is two changes: deleted, added.
    """

    kind: ChangeType
    object: T
    old: T | None = None


def object_key(metadata: MinimalMetadata) -> ObjectKey:
    return metadata.namespace, metadata.name


def view_from_list(
    before: Mapping[ObjectKey, T], items: Iterable[T]
) -> tuple[dict[ObjectKey, T], list[ObjectChange[T]]]:
    """The view that a listing gives, and how it differs from the one before."""
    view = {object_key(item.metadata): item for item in items}
    changes = [ObjectChange(ChangeType.DELETED, old, old) for key, old in before.items() if key not in view]
    for key, item in view.items():
        changes += _put_changes(before.get(key), item)
    return view, changes


def apply_put(view: dict[ObjectKey, T], item: T) -> list[ObjectChange[T]]:
    """Alters the view: the object is there, as it is now."""
    key = object_key(item.metadata)
    old, view[key] = view.get(key), item
    return _put_changes(old, item)


def apply_delete(view: dict[ObjectKey, T], key: ObjectKey, last: T | None) -> list[ObjectChange[T]]:
    """Alters the view: the object is gone. last: as it was when it went, where that is known."""
    old = view.pop(key, None)
    return [ObjectChange(ChangeType.DELETED, last or old, old)] if old is not None else []


def _put_changes(old: T | None, new: T) -> list[ObjectChange[T]]:
    if old is None:
        return [ObjectChange(ChangeType.ADDED, new)]
    if old.metadata.uid != new.metadata.uid:
        return [ObjectChange(ChangeType.DELETED, old, old), ObjectChange(ChangeType.ADDED, new)]
    return [ObjectChange(ChangeType.MODIFIED, new, old)] if _is_newer(old.metadata, new.metadata) else []


def _is_newer(old: MinimalMetadata, new: MinimalMetadata) -> bool:
    """A watch that is resumed may tell again what was known."""
    return not new.resource_version or old.resource_version != new.resource_version
