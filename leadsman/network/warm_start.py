"""Carries a fit over to the next one, while nodes and pairs come and go."""

import numpy as np
from numpy.typing import NDArray

from leadsman.network.embedding import EnsembleMember
from leadsman.network.estimates import NetworkEstimates
from leadsman.network.measured_pairs import Indices, MeasuredPairs

MAX_LOG_CHANGE = 0.25
"""A pair has moved when its delay grew or shrank by more than this, as a logarithm: 28 %. Medians of an idle path vary
much less."""


def carry_over(before: NetworkEstimates, previous: Indices, pairs: MeasuredPairs) -> NetworkEstimates:
    """`before` with the nodes numbered as in `pairs`: only a start for `fit_network`, its estimates are not valid.

    previous: for each node of `pairs`, its number in `before`; -1: it joined. A node that joined starts at the point of
    its nearest measured peer. ValueError when `previous` has another length.
    """
    if len(previous) != pairs.node_count:
        raise ValueError(
            f"previous node numbers have {len(previous)} entries, the pairs {pairs.node_count} nodes; pass one each"
        )
    place = _starting_nodes(previous, pairs)
    members = tuple(_renumber_member(member, place) for member in before.model.members)
    return before._replace(pairs=renumber_pairs(before.pairs, previous), model=before.model._replace(members=members))


def renumber_pairs(pairs: MeasuredPairs, previous: Indices) -> MeasuredPairs:
    """The pairs under the new numbers, without those of nodes that left. previous: as for `carry_over`."""
    number = np.full(pairs.node_count, -1)
    number[previous[previous >= 0]] = np.flatnonzero(previous >= 0)
    one, other = number[pairs.first], number[pairs.second]
    low, high = np.minimum(one, other), np.maximum(one, other)
    kept = np.flatnonzero(low >= 0)
    kept = kept[np.argsort(low[kept] * len(previous) + high[kept])]
    return MeasuredPairs(len(previous), low[kept], high[kept], pairs.log_ms[kept], pairs.half_skew[kept])


def changed_share(before: MeasuredPairs, now: MeasuredPairs) -> float:
    """Share of the pairs that are only in one of the two, or have moved."""
    one, other = _common_slots(before, now)
    union = len(before.keys) + len(now.keys) - len(one)
    return 1 - float(_alike(before, now, one, other).sum()) / union if union else 0.0


def moved_nodes(before: MeasuredPairs, now: MeasuredPairs) -> NDArray[np.bool_]:
    """Whether most of a node's pairs that are in both have moved. One moved pair says nothing about either end."""
    one, other = _common_slots(before, now)
    first, second = now.first[other], now.second[other]
    common = np.bincount(first, minlength=now.node_count) + np.bincount(second, minlength=now.node_count)
    apart = ~_alike(before, now, one, other)
    far = np.bincount(first, apart, now.node_count) + np.bincount(second, apart, now.node_count)
    return np.asarray(2 * far > common)


def _common_slots(before: MeasuredPairs, now: MeasuredPairs) -> tuple[Indices, Indices]:
    """The positions in each of the pairs that are in both."""
    _, one, other = np.intersect1d(before.keys, now.keys, assume_unique=True, return_indices=True)
    return one, other


def _alike(before: MeasuredPairs, now: MeasuredPairs, one: Indices, other: Indices) -> NDArray[np.bool_]:
    return np.abs(before.log_ms[one] - now.log_ms[other]) <= MAX_LOG_CHANGE


def _starting_nodes(previous: Indices, pairs: MeasuredPairs) -> Indices:
    """For each node, the previous number of the node at whose point it starts."""
    place = previous.copy()
    source = np.concatenate([pairs.first, pairs.second])
    target = np.concatenate([pairs.second, pairs.first])
    order = np.argsort(-np.concatenate([pairs.log_ms, pairs.log_ms]), kind="stable")
    usable = order[(previous[source[order]] < 0) & (previous[target[order]] >= 0)]
    place[source[usable]] = previous[target[usable]]
    return np.maximum(place, 0)


def _renumber_member(member: EnsembleMember, place: Indices) -> EnsembleMember:
    return member._replace(points=member.points[:, place].copy(), heights=member.heights[place].copy())
