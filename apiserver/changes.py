"""A view of the objects and how it changes. Pure: what a listing or a watch says, applied to what was known."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

Key = tuple[str, str]
"""Namespace ("" for what has none) and name."""


class Named(Protocol):
    """The metadata that a view needs. objects.Metadata has it; who keeps many objects may decode less."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class Object(Protocol):
    @property
    def metadata(self) -> Named: ...


T = TypeVar("T", bound=Object)


class Kind(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(Struct, Generic[T], frozen=True):
    """object: as it is now, or, deleted, as it was last seen. old: as it was known before; None when it was not.

    An object that was replaced by another one of its name is two changes: deleted, added.
    """

    kind: Kind
    object: T
    old: T | None = None


def key_of(metadata: Named) -> Key:
    return metadata.namespace, metadata.name


def listed(before: Mapping[Key, T], items: Iterable[T]) -> tuple[dict[Key, T], list[Change[T]]]:
    """The view that a listing gives, and how it differs from the one before."""
    view = {key_of(item.metadata): item for item in items}
    changes = [Change(Kind.DELETED, old, old) for key, old in before.items() if key not in view]
    for key, item in view.items():
        changes += _put(before.get(key), item)
    return view, changes


def put(view: dict[Key, T], item: T) -> list[Change[T]]:
    """Alters the view: the object is there, as it is now."""
    key = key_of(item.metadata)
    old, view[key] = view.get(key), item
    return _put(old, item)


def removed(view: dict[Key, T], key: Key, last: T | None) -> list[Change[T]]:
    """Alters the view: the object is gone. last: as it was when it went, where that is known."""
    old = view.pop(key, None)
    return [Change(Kind.DELETED, last or old, old)] if old is not None else []


def _put(old: T | None, new: T) -> list[Change[T]]:
    if old is None:
        return [Change(Kind.ADDED, new)]
    if old.metadata.uid != new.metadata.uid:
        return [Change(Kind.DELETED, old, old), Change(Kind.ADDED, new)]
    return [Change(Kind.MODIFIED, new, old)] if _moved(old.metadata, new.metadata) else []


def _moved(old: Named, new: Named) -> bool:
    """A watch that is resumed may tell again what was known."""
    return not new.resource_version or old.resource_version != new.resource_version
