"""Keeps what was used lately by key, in a young and an old generation: what nobody asks for in one is forgotten.

No lock: of two threads the one may miss what the other keeps, and computes it again.
"""

from collections.abc import Hashable, Iterable
from operator import is_
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class IdentityKey:
    """Makes a key equal only to one of the very same objects. It holds them, so no other object can get their ids."""

    __slots__ = ("_objects",)

    def __init__(self, objects: Iterable[object]) -> None:
        self._objects = tuple(objects)

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._objects)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, IdentityKey)
            and len(self._objects) == len(other._objects)
            and all(map(is_, self._objects, other._objects))
        )


class LruCache(Generic[K, V]):
    """Keeps at most twice `most` values, none of them None."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Returns the value, which its use makes young again."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self._young) >= self._most and key not in self._young:
            self.start_generation()
        self._young[key] = value

    def start_generation(self) -> None:
        self._old, self._young = self._young, {}
