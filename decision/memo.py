"""What was computed from each node's state, kept while that state is the same object.

It saves time and changes no answer. Of 5,000 nodes a few report between two pods; only those are computed
again. A new column replaces the old one whole, so concurrent readers see the one or the other, and departed
nodes leave no trace.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from clusterstate.snapshot import NodeState, Snapshot

V = TypeVar("V")


class _Column(Struct, Generic[V], frozen=True):
    parameters: Hashable
    states: Mapping[str, NodeState]
    values: Mapping[str, V]


class Memo:
    """Columns by name. Share one between all Facts of a process."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column[Any]] = {}

    def column(
        self, name: str, parameters: Hashable, of: Callable[[NodeState], V], snapshot: Snapshot
    ) -> Mapping[str, V]:
        """Node → of(its state), for every node of the snapshot. `of` depends on the state and `parameters` only."""
        before = self._columns.get(name)
        if before is None or before.parameters != parameters:
            before = _Column(parameters, {}, {})
        if before.states is not snapshot.nodes:
            before = self._columns[name] = _Column(parameters, snapshot.nodes, _updated(before, of, snapshot.nodes))
        return cast(Mapping[str, V], before.values)


def _updated(before: _Column[V], of: Callable[[NodeState], V], states: Mapping[str, NodeState]) -> dict[str, V]:
    known = before.states.get
    changed = {node: of(state) for node, state in states.items() if known(node) is not state}
    values = {**before.values, **changed}
    return values if len(values) == len(states) else {node: values[node] for node in states}
