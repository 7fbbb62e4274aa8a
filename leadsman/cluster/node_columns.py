"""Keeps values of all nodes as arrays: made once for the nodes that clusters share, patched where a cluster differs."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leadsman.cluster.model import Cluster, NodePods
from leadsman.cluster.node import ClusterNode

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

_NO_PODS = NodePods()


class NodeColumns:
    """Puts the nodes of a cluster in a fixed order, for columns of one value a node.

    names: of the nodes; those that this cluster lacks and another one of the same base has are among them.
    position: name → place in every column.
    present: whether the node is in this cluster.
    """

    def __init__(self, cluster: Cluster):
        self._nodes, self._pods = cluster.nodes, cluster.pods_by_node
        base = self._nodes.of_base("position", lambda nodes: {name: place for place, name in enumerate(nodes)})
        added = [name for name in self._nodes.changes if name not in base]
        self._base_position = base
        self.position: Mapping[str, int] = base
        if added:
            self.position = {**base, **{name: place for place, name in enumerate(added, len(base))}}
        self.names = self._nodes.of_base("names", tuple) + tuple(added)
        self.present: Mask = self.of_nodes("present", lambda _: True, absent=False)

    def of_nodes(self, key: Hashable, value: Callable[[ClusterNode], Any], absent: Any) -> NDArray[Any]:
        """Returns a column of what `value` makes of each node; `key` names it. Read only."""
        column = self._nodes.of_base(key, lambda nodes: _column(value, nodes.values()))
        if not self._nodes.changes:
            return column
        patched = np.concatenate([column, np.full(len(self.names) - len(column), absent, column.dtype)])
        for name, node in self._nodes.changes.items():
            patched[self.position[name]] = absent if node is None else value(node)
        return patched

    def of_pods(self, key: Hashable, value: Callable[[NodePods], int]) -> Ints:
        """Returns a column of what `value` makes of each node's pods; `key` names it. 0 for a node without any."""
        # The position dict is part of what is kept, so that its id is not given to another one.
        _, column = self._pods.of_base(
            (key, id(self._base_position)),
            lambda pods: (
                self._base_position,
                _column(value, [pods.get(name, _NO_PODS) for name in self._base_position]),
            ),
        )
        patched = np.concatenate([column, np.zeros(len(self.names) - len(column), np.int64)])
        for name in (*self.names[len(column) :], *self._pods.changes):
            place = self.position.get(name)
            if place is not None:
                patched[place] = value(self._pods.get(name, _NO_PODS))
        return patched

    def domains(self, label: str) -> tuple[Ints, dict[str, int]]:
        """Returns the nodes' domains by a label: a column of numbers, -1 without the label, and value → number."""
        numbers: dict[str, int] = self._nodes.of_base(("numbers", label), lambda _: {})

        def number(node: ClusterNode) -> int:
            value = node.labels.get(label)
            return -1 if value is None else numbers.setdefault(value, len(numbers))

        return self.of_nodes(("domains", label), number, absent=-1), numbers


def _column(value: Callable[[Any], Any], of: Any) -> NDArray[Any]:
    values = [value(one) for one in of]
    column = np.array(values, dtype=bool if values and isinstance(values[0], bool) else np.int64)
    column.flags.writeable = False
    return column
