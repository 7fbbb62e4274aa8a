"""What a new fit keeps of the one before, while nodes and pairs come and go."""

import numpy as np
from numpy.typing import NDArray

from leadsman.network.embedding import EnsembleMember
from leadsman.network.estimates import NetworkEstimates
from leadsman.network.measured_pairs import Indices, MeasuredPairs

MAX_LOG_CHANGE = 0.25
"""A pair has moved when its delay grew or shrank by more than this, as a logarithm: 28 %. Medians of a quiet path stay
well within it."""


def carry_over(before: NetworkEstimates, was: Indices, pairs: MeasuredPairs) -> NetworkEstimates:
    """`before` with the nodes numbered as in `pairs`, to start `fit` from; not to be asked.

    was: for each node of `pairs`, its number in `before`; -1: it joined. A node that joined begins where its nearest
    measured peer stands. ValueError when `was` is of another length.
    """
    if len(was) != pairs.node_count:
        raise ValueError(f"was has {len(was)} nodes: want {pairs.node_count}, as the pairs have")
    place = _starting_nodes(was, pairs)
    members = tuple(_renumber_member(member, place) for member in before.model.members)
    return before._replace(pairs=_renumber_pairs(before.pairs, was), model=before.model._replace(members=members))


def changed_share(before: MeasuredPairs, now: MeasuredPairs) -> float:
    """Share of the pairs that are only in one of the two, or have moved."""
    one, other = _common_slots(before, now)
    union = len(before.keys) + len(now.keys) - len(one)
    return 1 - float(_alike(before, now, one, other).sum()) / union if union else 0.0


def moved_nodes(before: MeasuredPairs, now: MeasuredPairs) -> NDArray[np.bool_]:
    """Of each node, whether most of its pairs that both have did. One pair that moved says nothing about either end."""
    one, other = _common_slots(before, now)
    first, second = now.first[other], now.second[other]
    common = np.bincount(first, minlength=now.node_count) + np.bincount(second, minlength=now.node_count)
    apart = ~_alike(before, now, one, other)
    far = np.bincount(first, apart, now.node_count) + np.bincount(second, apart, now.node_count)
    return np.asarray(2 * far > common)


def _common_slots(before: MeasuredPairs, now: MeasuredPairs) -> tuple[Indices, Indices]:
    """Where the pairs that both have stand in each."""
    _, one, other = np.intersect1d(before.keys, now.keys, assume_unique=True, return_indices=True)
    return one, other


def _alike(before: MeasuredPairs, now: MeasuredPairs, one: Indices, other: Indices) -> NDArray[np.bool_]:
    return np.abs(before.log_ms[one] - now.log_ms[other]) <= MAX_LOG_CHANGE


def _starting_nodes(was: Indices, pairs: MeasuredPairs) -> Indices:
    """The old number of the node at whose place each one begins."""
    place = was.copy()
    source = np.concatenate([pairs.first, pairs.second])
    target = np.concatenate([pairs.second, pairs.first])
    order = np.argsort(-np.concatenate([pairs.log_ms, pairs.log_ms]), kind="stable")
    usable = order[(was[source[order]] < 0) & (was[target[order]] >= 0)]
    place[source[usable]] = was[target[usable]]
    return np.maximum(place, 0)


def _renumber_member(member: EnsembleMember, place: Indices) -> EnsembleMember:
    return member._replace(points=member.points[:, place].copy(), heights=member.heights[place].copy())


def _renumber_pairs(pairs: MeasuredPairs, was: Indices) -> MeasuredPairs:
    """Without the pairs of nodes that left."""
    number = np.full(pairs.node_count, -1)
    number[was[was >= 0]] = np.flatnonzero(was >= 0)
    one, other = number[pairs.first], number[pairs.second]
    low, high = np.minimum(one, other), np.maximum(one, other)
    kept = np.flatnonzero(low >= 0)
    kept = kept[np.argsort(low[kept] * len(was) + high[kept])]
    return MeasuredPairs(len(was), low[kept], high[kept], pairs.log_ms[kept], pairs.half_skew[kept])
