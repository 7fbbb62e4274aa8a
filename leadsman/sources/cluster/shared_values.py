"""One object for equal values: pods of one template share their labels, constraints and requests."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from leadsman.kube.bounded_metadata import BoundedLabels

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


_LABELS: SharedValues[BoundedLabels] = SharedValues()


def shared_labels(labels: BoundedLabels) -> BoundedLabels:
    """These labels as the one object that everybody has."""
    return _LABELS.get((labels.cut, *sorted(labels.items())), lambda: labels)
