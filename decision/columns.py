"""Values beside their nodes. A list costs a third of a dict, and most values are only ever asked for all at once."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Self


class Column(Mapping[str, float]):
    """nodes, each once, and the value of each in `numbers`. Its dict is made when one node is asked for."""

    def __init__(self, nodes: Sequence[str], numbers: Sequence[float]) -> None:
        self.nodes, self.numbers = nodes, numbers

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Self:
        return values if isinstance(values, cls) else cls(list(values), list(values.values()))

    def at(self, nodes: Sequence[str], otherwise: float) -> Sequence[float]:
        """The values of these nodes; `otherwise` where there is none."""
        return self.numbers if nodes is self.nodes else [self._by_node.get(node, otherwise) for node in nodes]

    def __getitem__(self, node: str) -> float:
        return self._by_node[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"Column({self._by_node})"

    @cached_property
    def _by_node(self) -> dict[str, float]:
        return dict(zip(self.nodes, self.numbers, strict=True))


def picked(nodes: Sequence[str], table: Mapping[str, float]) -> Column:
    """Those of the nodes that stand in the table, with their values; `nodes` itself when all do."""
    try:
        return Column(nodes, list(map(table.__getitem__, nodes)))
    except KeyError:
        known = [node for node in nodes if node in table]
        return Column(known, [table[node] for node in known])


def missing(nodes: Sequence[str], column: Column, table: Mapping[str, object]) -> Sequence[str]:
    """The nodes that `picked` left out."""
    return [node for node in nodes if node not in table] if len(column) < len(nodes) else []
