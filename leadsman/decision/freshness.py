"""Until when each node's data may be used: all nodes at once, or one for an explanation."""

from collections.abc import Callable, Collection, Hashable, Mapping, Set
from typing import TypeVar

import numpy as np

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.node_index import BoolArray, NodeIndex
from leadsman.state.snapshot import Freshness

V = TypeVar("V")


def freshness_of(node: str, inputs: DecisionInputs) -> Freshness:
    """One node's; a node that the state does not know is silent."""
    state = inputs.snapshot.nodes.get(node)
    return Freshness.SILENT if state is None else state.freshness(inputs.now)


def fresh_mask(index: NodeIndex, inputs: DecisionInputs) -> BoolArray:
    """Whether each node's data are fresh."""
    return cached_while_fresh(
        ("fresh", index), lambda: inputs.cache.fresh_until(inputs.snapshot, index) > inputs.now, inputs
    )


def fresh_only(column: Mapping[str, V], inputs: DecisionInputs) -> dict[str, V]:
    """The column without the nodes that are not fresh."""
    fresh = dict(column)
    for node in not_fresh_nodes(inputs):
        fresh.pop(node, None)
    return fresh


def not_fresh_nodes(inputs: DecisionInputs) -> Collection[str]:
    """Those of the state that are not fresh."""
    return cached_while_fresh("not fresh", lambda: _find_not_fresh(inputs), inputs)


def fresh_nodes(inputs: DecisionInputs) -> Set[str]:
    """Those of the state that are."""
    return inputs.snapshot.nodes.keys() - set(not_fresh_nodes(inputs))


def _find_not_fresh(inputs: DecisionInputs) -> Collection[str]:
    states, index = inputs.snapshot.nodes, inputs.cache.index(inputs.snapshot)
    old = np.flatnonzero(inputs.cache.fresh_until(inputs.snapshot, index)[: len(index)] <= inputs.now)
    return [node for position in old if (node := index.nodes[position]) in states]


def cached_while_fresh(key: Hashable, make: Callable[[], V], inputs: DecisionInputs) -> V:
    """make(), made once while states, freshness and the other sources stay as they are. It depends on them and `key`
    only."""
    others = (*inputs.delay_views, inputs.estimates, inputs.last_round_trips)
    until = min((view.fresh_until for view in inputs.delay_views if view.fresh_until > inputs.now), default=np.inf)
    return inputs.cache.per_snapshot(key, make, inputs.snapshot, inputs.now, others, until)
