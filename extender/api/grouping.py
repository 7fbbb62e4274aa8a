"""Puts nodes into at most 64 groups, and both into an order in which neighbours are near each other.

Zones are the groups where every node has one and there are from two to 64 of them: operators think in zones, and a node
that is slow then stands out in its zone. Otherwise groups are made by delay: centres are chosen farthest from all
before [1], and each node joins the nearest. A centre that nobody joins is a slow node, not a group.

[1] Gonzalez, "Clustering to minimize the maximum intercluster distance", Theoretical Computer Science 38, 1985.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from leadsman.network.measured_pairs import Floats, Indices

MAX_GROUPS = 64
_NODES_A_GROUP = 4
"""Fewer would make groups of single nodes."""

DistanceRow = Callable[[int], Floats]
"""Node → round trips to all nodes in ms, NaN where none is known."""


class NodeGrouping(Struct, frozen=True, eq=False, dict=True):
    """ids, labels: of each group, in order. group_of: group of each node."""

    ids: tuple[str, ...]
    labels: tuple[str, ...]
    group_of: Indices

    @cached_property
    def order(self) -> Indices:
        """All nodes, group by group."""
        return np.argsort(self.group_of, kind="stable")

    @property
    def sizes(self) -> Indices:
        """Nodes of each group."""
        return np.bincount(self.group_of, minlength=len(self.ids))


def group_by_zone(zones: Sequence[str]) -> NodeGrouping | None:
    """None when zones are unknown, or too few or too many to be groups. zones: of each node, "" unknown."""
    names = sorted(set(zones))
    if "" in names or not 2 <= len(names) <= MAX_GROUPS:
        return None
    number = {name: at for at, name in enumerate(names)}
    return NodeGrouping(tuple(names), tuple(names), np.array([number[zone] for zone in zones], np.intp))


def group_by_delay(names: Sequence[str], zones: Sequence[str], distances: DistanceRow) -> NodeGrouping:
    """Groups around centres. A group is called by its centre, and labelled with the zone of most of its nodes."""
    centres, group_of = _centres(len(names), distances)
    zones_of_group = [
        Counter(zones[node] for node in np.flatnonzero(group_of == at).tolist()) for at in range(len(centres))
    ]
    ids = tuple(names[centre] for centre in centres)
    majority = [(zones.most_common(1) or [("", 0)])[0][0] for zones in zones_of_group]
    labels = tuple(f"{zone} near {name}" if zone else f"near {name}" for name, zone in zip(ids, majority, strict=True))
    return NodeGrouping(ids, labels, group_of)


def _centres(nodes: int, distances: DistanceRow) -> tuple[list[int], Indices]:
    """Centres, and the place of each node's own. Nodes without a distance to any join the first."""
    if not nodes:
        return [], np.zeros(0, np.intp)
    centres, rows = list[int](), list[Floats]()
    nearest = np.full(nodes, np.inf)
    following = 0
    for _ in range(max(1, min(MAX_GROUPS, nodes // _NODES_A_GROUP))):
        row = np.where(np.isnan(row := distances(following)), np.inf, row)
        row[following] = 0.0
        centres.append(following)
        rows.append(row)
        nearest = np.minimum(nearest, row)
        reachable = np.where(np.isinf(nearest), -1.0, nearest)
        following = int(reachable.argmax())
        if reachable[following] <= 0:
            break
    return _drop_single(centres, np.array(rows))


def _drop_single(centres: list[int], rows: Floats) -> tuple[list[int], Indices]:
    """Without the centres that no other node is near to, unless all are such."""
    sizes = np.bincount(rows.argmin(0), minlength=len(centres))
    kept = [at for at in range(len(centres)) if sizes[at] > 1] or list(range(len(centres)))
    return [centres[at] for at in kept], rows[kept].argmin(0)


def chain(distance: Floats) -> Indices:
    """The groups in an order in which each is followed by the nearest that is left. distance: square, NaN unknown."""
    left = np.ones(len(distance), np.bool_)
    far = np.where(np.isnan(distance), np.inf, distance)
    order, at = list[int](), 0
    while left.any():
        order.append(at)
        left[at] = False
        if left.any():
            at = (
                int(np.where(left, far[at], np.inf).argmin())
                if np.isfinite(far[at][left]).any()
                else int(left.argmax())
            )
    return np.array(order, np.intp)


def in_order(grouping: NodeGrouping, order: Indices) -> NodeGrouping:
    """The same groups, in this order."""
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    ids, labels = (tuple(each[at] for at in order.tolist()) for each in (grouping.ids, grouping.labels))
    return NodeGrouping(ids, labels, place[grouping.group_of])
