"""One object for equal values: pods of one template share their labels, constraints and requests."""

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

V = TypeVar("V")


class SharedValues(Generic[V]):
    """Values by key, each kept as long as somebody uses it."""

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[Hashable, V] = WeakValueDictionary()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of this key, made if nobody has it yet."""
        value = self._by_key.get(key)
        if value is None:
            self._by_key[key] = value = make()
        return value


class Labels(dict[str, str]):
    """Labels that many objects share. Never altered; a dict by itself cannot be referred to weakly."""

    __slots__ = ("__weakref__",)


_LABELS: SharedValues[Labels] = SharedValues()


def shared_labels(labels: Mapping[str, str]) -> Labels:
    """These labels as the one object that everybody has."""
    return _LABELS.get(tuple(sorted(labels.items())), lambda: Labels(labels))
