"""A mapping that is changed by laying a few changes over a base that many mappings share."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class Overlay(Mapping[K, V], Generic[K, V]):
    """An immutable mapping: `base` with `changes` laid over it. A change costs as much as there are changes.

    changes: key → its value now; None: the key is gone. Once their number squared exceeds the base's size, they become
    part of a new base, so that neither copying them nor copying the base is ever expensive.
    """

    __slots__ = ("_remembered", "_size", "base", "changes")

    def __init__(self, base: Mapping[K, V]):
        self.base = base
        self.changes: Mapping[K, V | None] = {}
        self._remembered: dict[Hashable, Any] = {}
        self._size = -1

    def replaced(self, changes: Mapping[K, V | None]) -> "Overlay[K, V]":
        """The mapping with these changes; None removes a key."""
        if not changes:
            return self
        merged = {**self.changes, **changes}
        if len(merged) ** 2 > len(self.base):
            return Overlay(_merged(self.base, merged))
        overlay = Overlay(self.base)
        overlay.changes, overlay._remembered = merged, self._remembered
        return overlay

    def of_base(self, key: Hashable, compute: Callable[[Mapping[K, V]], R]) -> R:
        """What `compute` makes of the base, kept under `key` for every mapping that shares the base."""
        if key not in self._remembered:
            self._remembered[key] = compute(self.base)
        remembered: R = self._remembered[key]
        return remembered

    def __getitem__(self, key: K) -> V:
        if key not in self.changes:
            return self.base[key]
        value = self.changes[key]
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.changes[key] is not None if key in self.changes else key in self.base  # type: ignore[index]

    def __iter__(self) -> Iterator[K]:
        """Those of the base in its order, then the added ones."""
        changes = self.changes
        yield from (key for key in self.base if key not in changes or changes[key] is not None)
        yield from (key for key, value in changes.items() if value is not None and key not in self.base)

    def __len__(self) -> int:
        if self._size < 0:
            self._size = sum(1 for _ in self) if self.changes else len(self.base)
        return self._size


def _merged(base: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged
