"""Until when each node's data may be used: all nodes at once, or one for an explanation."""

from collections.abc import Callable, Collection, Hashable, Mapping, Set
from typing import TypeVar

from leadsman.decision.inputs import DecisionInputs
from leadsman.state.snapshot import Freshness

V = TypeVar("V")

NEVER_FRESH = float("-inf")
ALWAYS_FRESH = float("inf")


def fresh_until(facts: DecisionInputs) -> Mapping[str, float]:
    """Node → the monotonic seconds from which its data are stale; NEVER while silent or provisional."""
    return facts.cache.fresh_until(facts.snapshot)


def freshness_of(node: str, facts: DecisionInputs) -> Freshness:
    """One node's; a node that the state does not know is silent."""
    state = facts.snapshot.nodes.get(node)
    return Freshness.SILENT if state is None else state.freshness(facts.now)


def fresh_only(column: Mapping[str, V], facts: DecisionInputs) -> dict[str, V]:
    """The column without the nodes that are not fresh."""
    fresh = dict(column)
    for node in not_fresh_nodes(facts):
        fresh.pop(node, None)
    return fresh


def not_fresh_nodes(facts: DecisionInputs) -> Collection[str]:
    """Those of the state that are not fresh."""
    return cached_while_fresh("old", lambda: _find_not_fresh(facts), facts)


def fresh_nodes(facts: DecisionInputs) -> Set[str]:
    """Those of the state that are."""
    return facts.snapshot.nodes.keys() - set(not_fresh_nodes(facts))


def _find_not_fresh(facts: DecisionInputs) -> Collection[str]:
    column, now = fresh_until(facts), facts.now
    if min(column.values(), default=ALWAYS_FRESH) > now:
        return ()
    return [node for node, until in column.items() if until <= now]


def cached_while_fresh(key: Hashable, make: Callable[[], V], facts: DecisionInputs) -> V:
    """make(), made once while states, freshness and the other sources stand. It depends on them and `key` only."""
    others = (*facts.delay_views, facts.estimates)
    until = min(
        (source.fresh_until for source in facts.delay_views if source.fresh_until > facts.now), default=ALWAYS_FRESH
    )
    return facts.cache.per_snapshot(key, make, facts.snapshot, facts.now, others, until)
