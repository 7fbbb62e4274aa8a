"""Finds the nodes that moved: whose round trips to all their peers grew or shrank alike between two moments.

A pair's change is that of both its ends. Of a node, the median over its pairs is its own as long as most of its peers
stayed where they were; a second pass takes off what the peers moved.
"""

from collections.abc import Sequence

import numpy as np

from extender.api.delay_table import grouped_median
from leadsman.network.measured_pairs import Floats, Indices

MIN_PAIRS = 5
"""Directed pairs below which a node's median says more about a peer than about the node: of three nodes nobody can tell
which one moved."""

LEAST_SHIFT_MS = 1.0
LEAST_SHARE = 0.1
"""A shift counts from so many ms and such a share of the node's median round trip on."""


def node_shifts_ms(one: Indices, other: Indices, change_ms: Floats, nodes: int) -> Floats:
    """By how much each node moved away from all others; NaN with fewer than MIN_PAIRS pairs.

    change_ms: of the pairs (one[k], other[k]), NaN where either moment has no value.
    """
    ends, opposite = np.concatenate([one, other]), np.concatenate([other, one])
    change = np.concatenate([change_ms, change_ms])
    first = np.nan_to_num(median_changes_ms(one, other, change_ms, nodes))
    moved = np.where(np.abs(first) >= LEAST_SHIFT_MS, first, 0.0)
    shift = grouped_median(ends, change - moved[opposite], nodes)
    pairs = np.bincount(ends[~np.isnan(change)], minlength=nodes)
    return np.where(pairs >= MIN_PAIRS, shift, np.nan)


def median_changes_ms(one: Indices, other: Indices, change_ms: Floats, nodes: int) -> Floats:
    """The first pass alone: each node's median, whatever its peers did."""
    return grouped_median(np.concatenate([one, other]), np.concatenate([change_ms, change_ms]), nodes)


def began_at(shift_since_ms: Sequence[float]) -> int:
    """The moment from which a node stands where it stands now.

    shift_since_ms: by how much it moved from each earlier moment until now, the oldest first, NaN unknown. It is the
    place after the last moment from which it moved by at least half of the largest shift; 0 when there is none.
    """
    shifts = np.nan_to_num(np.abs(np.asarray(shift_since_ms, float)))
    if not len(shifts) or not shifts.max():
        return 0
    return int(np.flatnonzero(shifts >= shifts.max() / 2)[-1]) + 1


def is_notable(shift_ms: float, median_ms: float) -> bool:
    """Whether a person should hear of the shift. median_ms: of the node's round trips now."""
    return bool(abs(shift_ms) >= max(LEAST_SHIFT_MS, LEAST_SHARE * median_ms))


def shift_text(node: str, shift_ms: float, since: str) -> str:
    """One sentence. since: time of day, as "14:02"."""
    direction = "farther from" if shift_ms > 0 else "nearer to"
    return f"{node} is {abs(shift_ms):.3g} ms {direction} everybody since {since}"
