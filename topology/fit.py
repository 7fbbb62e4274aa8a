"""The central estimate: every pair's round trip, from all that was measured.

`fit` spends about `_PAIR_STEPS` on descent up to some 13,000 nodes of 16 peers, and grows with the pairs from there on.
5,000 nodes get fewer members and fewer steps than 500; one that starts from the fit before goes on where it stopped.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from topology.calibration import UNKNOWN, Calibration, Signs, calibrate
from topology.embedding import ENSEMBLE, Descent, Member, descend, start
from topology.estimates import Estimates
from topology.groups import level
from topology.model import model
from topology.pairs import Floats, Indices, Pairs
from topology.warm import changed

_PAIR_STEPS = 64_000_000
_MOST_MEMBERS, _FEWEST_MEMBERS = 16, 5
_MOST_STEPS, _FEWEST_STEPS = 500, 60
_AGAIN = 4
"""A warm start takes this part of the steps of a cold one."""
_AGAIN_RATE, _AGAIN_WIDTH = 0.1, 0.1
_LANDMARK_PAIRS = 6_000_000
"""Product of landmarks and measured pairs at most, but 64 landmarks at least."""
_FEWEST_LANDMARKS = 64
_REGRESSION_STEPS = 12
"""Past these the estimates of measured networks change by less than 0.1 %."""
_LEFT_OUT = 8
"""One pair in so many is left out at a time, for calibration."""
_ENOUGH_LEFT_OUT = 3_000
_CHANGED = 0.1
"""Share of pairs that came, went or moved since the calibration, above which a warm start calibrates anew."""


class Effort(NamedTuple):
    """What a fit may spend. steps: of a cold descent. rounds: of calibration."""

    members: int
    steps: int
    landmarks: int
    rounds: int

    @property
    def again(self) -> Descent:
        return Descent(max(1, self.steps // _AGAIN), _AGAIN_RATE, _AGAIN_WIDTH)


def effort(pairs: Pairs) -> Effort:
    """By the number of nodes and pairs, so that time is bounded."""
    measured = max(1, len(pairs.log_ms))
    members = int(np.clip(_PAIR_STEPS // (measured * _MOST_STEPS), _FEWEST_MEMBERS, _MOST_MEMBERS))
    steps = int(np.clip(_PAIR_STEPS // (measured * members), _FEWEST_STEPS, _MOST_STEPS))
    landmarks = min(pairs.nodes, max(_FEWEST_LANDMARKS, _LANDMARK_PAIRS // measured))
    rounds = min(_LEFT_OUT, ceil(_ENOUGH_LEFT_OUT * _LEFT_OUT / measured))
    return Effort(members, steps, landmarks, rounds)


def fit(
    pairs: Pairs,
    rng: np.random.Generator,
    groups: Sequence[Indices] = (),
    before: Estimates | None = None,
    spend: Effort | None = None,
) -> Estimates:
    """groups: group of each node (-1 unknown), from the finest: racks, then zones. before: to go on from, with as many
    nodes as now (`warm.carried` brings it there), else ValueError. spend: None means `effort(pairs)`. The same
    arguments give the same estimates.
    """
    if before is not None and before.pairs.nodes != pairs.nodes:
        raise ValueError(f"before has {before.pairs.nodes} nodes: want {pairs.nodes}, as the pairs have")
    spend = spend or effort(pairs)
    members = _members(pairs, rng, spend, before)
    landmarks = np.sort(rng.permutation(pairs.nodes)[: spend.landmarks])
    fitted = model(members, pairs, landmarks, _REGRESSION_STEPS)
    drift = 1.0 if before is None else before.drift + changed(before.pairs, pairs)
    if before is not None and drift <= _CHANGED:
        calibration, error = before.calibration, before.error
    else:
        (calibration, error), drift = _calibration(members, pairs, landmarks, rng, spend), 0.0
    levels = (level(np.asarray(of), pairs) for of in groups)
    better = tuple(one for one in levels if one.error < error)
    return Estimates(pairs, fitted, calibration, better, error, drift, pairs.degree > 0)


def _members(pairs: Pairs, rng: np.random.Generator, spend: Effort, before: Estimates | None) -> tuple[Member, ...]:
    if before is not None:
        return tuple(descend(member, pairs, spend.again) for member in before.model.members)
    shapes = [ENSEMBLE[number % len(ENSEMBLE)] for number in range(spend.members)]
    return tuple(descend(start(shape, pairs, rng), pairs, Descent(spend.steps)) for shape in shapes)


def _calibration(
    members: Sequence[Member],
    pairs: Pairs,
    landmarks: Indices,
    rng: np.random.Generator,
    spend: Effort,
) -> tuple[Calibration, float]:
    """Members forget the pairs left out by going on without them."""
    part = rng.integers(0, _LEFT_OUT, len(pairs.log_ms))
    signs: list[Signs] = []
    measured: list[Floats] = []
    pair: list[Indices] = []
    for number in range(spend.rounds if len(part) >= _LEFT_OUT else 0):
        kept, out = pairs.where(part != number), pairs.where(part == number)
        again = [descend(member, kept, spend.again) for member in members]
        of, log_ms = out.directions
        signs.append(model(again, kept, landmarks, _REGRESSION_STEPS).at(out.first[of], out.second[of]))
        measured.append(log_ms)
        pair.append(np.flatnonzero(part == number)[of])
    return _learned(signs, measured, pair)


def _learned(signs: Sequence[Signs], measured: Sequence[Floats], pair: Sequence[Indices]) -> tuple[Calibration, float]:
    if not signs:
        return UNKNOWN, float("inf")
    joined = Signs(*(np.concatenate(column) for column in zip(*signs, strict=True)))
    error = np.concatenate(measured) - joined.log_ms
    return calibrate(joined, error, np.concatenate(pair)), float(np.median(np.abs(error)))
