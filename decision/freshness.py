"""Until when each node's data may be used: all nodes at once, or one for an explanation."""

from collections.abc import Callable, Collection, Hashable, Mapping, Set
from typing import TypeVar

from clusterstate.snapshot import Freshness
from decision.model import Facts

V = TypeVar("V")

NEVER = float("-inf")
FOR_EVER = float("inf")


def fresh_until(facts: Facts) -> Mapping[str, float]:
    """Node → the monotonic seconds from which its data are stale; NEVER while silent or provisional."""
    return facts.memo.fresh_until(facts.snapshot)


def freshness_of(node: str, facts: Facts) -> Freshness:
    """One node's; a node that the state does not know is silent."""
    state = facts.snapshot.nodes.get(node)
    return Freshness.SILENT if state is None else state.freshness(facts.now)


def fresh_part(column: Mapping[str, V], facts: Facts) -> dict[str, V]:
    """The column without the nodes that are not fresh."""
    fresh = dict(column)
    for node in old_nodes(facts):
        fresh.pop(node, None)
    return fresh


def old_nodes(facts: Facts) -> Collection[str]:
    """Those of the state that are not fresh."""
    return kept_while_fresh("old", lambda: _old(facts), facts)


def fresh_nodes(facts: Facts) -> Set[str]:
    """Those of the state that are."""
    return facts.snapshot.nodes.keys() - set(old_nodes(facts))


def _old(facts: Facts) -> Collection[str]:
    column, now = fresh_until(facts), facts.now
    if min(column.values(), default=FOR_EVER) > now:
        return ()
    return [node for node, until in column.items() if until <= now]


def kept_while_fresh(key: Hashable, make: Callable[[], V], facts: Facts) -> V:
    """make(), made once while states, freshness and the other sources stand. It depends on them and `key` only."""
    others = (*facts.delays, facts.estimates)
    until = min((source.fresh_until for source in facts.delays if source.fresh_until > facts.now), default=FOR_EVER)
    return facts.memo.table(key, make, facts.snapshot, facts.now, others, until)
