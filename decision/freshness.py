"""Until when each node's data may be used."""

from collections.abc import Mapping
from operator import attrgetter

from decision.model import Facts

NEVER = float("-inf")


def fresh_until(facts: Facts) -> Mapping[str, float]:
    """Node → the monotonic seconds from which its data are stale; NEVER while silent or provisional."""
    return facts.memo.column("fresh_until", None, attrgetter("fresh_until"), facts.snapshot)


def why_not(node: str, facts: Facts) -> str:
    """Why a node's data are not used: "stale", "provisional" or "silent"; "fresh" when they are."""
    state = facts.snapshot.nodes.get(node)
    return "silent" if state is None else state.freshness(facts.now).value
