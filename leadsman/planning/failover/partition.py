"""Tells nodes that died from nodes that were cut off together.

Nodes of one rack or zone that fall silent together share a switch or a line, and from outside a rack without its switch
and a rack without power look alike. What can tell them apart is a living node on their side of the switch: when it has
lost them too, the switch is not the cause. A rack or zone that is silent as a whole has no such witness and stays a
partition.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.planning.failover.model import DetectionRules, Location
from leadsman.planning.failover.votes import Stance, Vote


class SilentNode(Struct, frozen=True):
    """since: when it was first seen to be silent."""

    location: Location
    since: float


class SilentNodes:
    """All nodes that are silent now."""

    def __init__(self, nodes: Mapping[str, SilentNode], rules: DetectionRules) -> None:
        self._nodes, self._rules = nodes, rules
        self._by_domain = defaultdict[tuple[str, ...], list[str]](list)
        for name, node in nodes.items():
            for domain in node.location.domains:
                self._by_domain[domain].append(name)

    def why_partition(self, node: str, votes: Sequence[Vote]) -> str:
        """Why `node` counts as cut off together with others; "" when it does not. votes: on this node."""
        if node not in self._nodes:
            return ""
        for domain in self._nodes[node].location.domains:
            group = self._silent_with(node, domain)
            if len(group) > 1 and not self._outside_agrees(domain, group, votes):
                shown = ", ".join(sorted(group)[:5]) + (", …" if len(group) > 5 else "")
                return (
                    f"{len(group)} nodes of {domain[0]} {domain[-1]} fell silent within "
                    f"{self._rules.partition_seconds:g} s ({shown}), and no living node of that {domain[0]} confirms "
                    "that this one is gone"
                )
        return ""

    def _silent_with(self, node: str, domain: tuple[str, ...]) -> set[str]:
        since, within = self._nodes[node].since, self._rules.partition_seconds
        return {name for name in self._by_domain[domain] if abs(self._nodes[name].since - since) <= within}

    def _outside_agrees(self, domain: tuple[str, ...], group: set[str], votes: Sequence[Vote]) -> bool:
        """Whether those outside the group have lost the node, one on its side too, and none on its side hears it."""
        outside = [vote for vote in votes if vote.prober not in group]
        lost = sum(vote.stance is Stance.LOST for vote in outside)
        side = {vote.stance for vote in outside if domain in vote.location.domains}
        return Stance.LOST in side and Stance.HEARD not in side and lost >= self._rules.lost_ratio * len(outside)
