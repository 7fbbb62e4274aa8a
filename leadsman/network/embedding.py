"""Embeds nodes as points, so that distance plus both heights is the round trip.

This is Vivaldi's model [1], fitted centrally to all pairs at once: gradient descent (Adam [2]) on the pseudo-Huber loss
of log(estimate / measured), so that a wrong measurement pulls no harder than one that is off by LOSS_WIDTH. Distance is
a sum of Euclidean distances in blocks of a few dimensions each: one block is Vivaldi's plane, blocks of one dimension
are city blocks. Routed networks are more like trees than like planes, so several blocks err less in the median and one
block less in the worst case. The mean of members of different shapes errs less than each, and their spread shows where
the data do not decide.

[1] Dabek, Cox, Kaashoek, Morris, "Vivaldi", SIGCOMM 2004. [2] Kingma, Ba, "Adam", ICLR 2015.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs

LOSS_WIDTH = 0.05
"""Error below which the loss is quadratic, above linear: 5 %, near the median error of the model."""
_LOSS_WIDTH_AT_START = 0.5
_LEARNING_RATE = 0.2
_MOMENTUM, _VARIANCE = 0.9, 0.98
_DISTANCE_SMOOTHING = 1e-2
"""Rounds off the corner where a distance is zero; in units of the median round trip, divided among the blocks."""
_INITIAL_LOG_HEIGHT = -3.0


class EmbeddingShape(NamedTuple):
    """Shapes a point: so many blocks, each of so many dimensions."""

    blocks: int
    dimensions: int


ENSEMBLE_SHAPES = tuple(
    EmbeddingShape(*one) for one in ((1, 4), (3, 2), (1, 3), (6, 1), (1, 5), (4, 2), (2, 3), (5, 1))
)
"""Shapes of the ensemble's embeddings; a fit with a smaller budget takes the first ones."""


class EnsembleMember(NamedTuple):
    """One embedding of all nodes, of which an ensemble has several.

    points: one row for each dimension.
    heights: logarithms. Both in units of exp(log_unit_ms).
    """

    shape: EmbeddingShape
    points: Floats
    heights: Floats
    log_unit_ms: float


class DescentSchedule(NamedTuple):
    """Says how a member descends: how many steps, how fast, and from what width of the loss.

    steps: at most.
    rate: of the first step, as a share of the median round trip.
    width_at_start: of the loss; it narrows to LOSS_WIDTH.
    """

    steps: int
    rate: float = _LEARNING_RATE
    width_at_start: float = _LOSS_WIDTH_AT_START


def random_member(shape: EmbeddingShape, pairs: MeasuredPairs, rng: "np.random.Generator") -> EnsembleMember:
    """Makes a member with random points. Without a pair there is nothing to fit, and the unit is a millisecond."""
    points = (rng.standard_normal((shape.blocks * shape.dimensions, pairs.node_count)) * 0.5).astype(np.float32)
    heights = np.full(pairs.node_count, _INITIAL_LOG_HEIGHT, np.float32)
    return EnsembleMember(shape, points, heights, float(np.median(pairs.log_ms)) if len(pairs.log_ms) else 0.0)


def descend(
    member: EnsembleMember, pairs: MeasuredPairs, descent: DescentSchedule, moving: int | None = None
) -> EnsembleMember:
    """Returns the member after `descent.steps` steps, each smaller (half a cosine) and with a narrower loss.

    moving: only the first so many nodes move; None: all do.
    """
    target = pairs.log_ms - np.float32(member.log_unit_ms)
    degree = np.maximum(pairs.degree, 1).astype(np.float32)
    values = np.vstack([member.points, member.heights])
    mean, square = np.zeros_like(values), np.zeros_like(values)
    for step in range(1, descent.steps + 1):
        done = step / descent.steps
        width = max(LOSS_WIDTH, descent.width_at_start * (1 - done) ** 2)
        slope = _gradient(member.shape, values, pairs, target, width) / degree
        if moving is not None:
            slope[:, moving:] = 0
        mean += (1 - _MOMENTUM) * (slope - mean)
        square += (1 - _VARIANCE) * (slope * slope - square)
        rate = descent.rate * 0.5 * (1 + np.cos(np.pi * done)) + 1e-4
        values -= (rate / (1 - _MOMENTUM**step)) * mean / (np.sqrt(square / (1 - _VARIANCE**step)) + 1e-6)
    return member._replace(points=values[:-1], heights=values[-1])


def _gradient(shape: EmbeddingShape, values: Floats, pairs: MeasuredPairs, target: Floats, width: float) -> Floats:
    """Returns the gradient of the loss, by coordinate (last row: height) and node."""
    one, other = pairs.first, pairs.second
    between = values[:-1].take(one, 1) - values[:-1].take(other, 1)
    distance, direction = _metric(shape, between)
    height = np.exp(values[-1])
    estimate = distance + height[one] + height[other]
    error = np.log(estimate) - target
    pull = error / (estimate * np.sqrt(1 + (error / np.float32(width)) ** 2))
    direction *= pull
    slope = np.empty_like(values)
    for axis, along in enumerate(direction):
        slope[axis] = np.bincount(one, along, pairs.node_count) - np.bincount(other, along, pairs.node_count)
    slope[-1] = height * (np.bincount(one, pull, pairs.node_count) + np.bincount(other, pull, pairs.node_count))
    return slope


def _metric(shape: EmbeddingShape, between: Floats) -> tuple[Floats, Floats]:
    """Returns distances, and their derivatives by each coordinate. between: coordinates' differences, dimensions
    first."""
    blocks = between.reshape(shape.blocks, shape.dimensions, *between.shape[1:])
    lengths = np.sqrt((blocks * blocks).sum(1) + np.float32((_DISTANCE_SMOOTHING / shape.blocks) ** 2))
    return lengths.sum(0), (blocks / lengths[:, None]).reshape(between.shape)


def member_log_ms(member: EnsembleMember, one: Indices, other: Indices | slice) -> Floats:
    """Returns the estimate's logarithm for indices that broadcast. A slice is faster than its indices."""
    distance, _ = _metric(member.shape, member.points[:, one] - member.points[:, other])
    height = np.exp(member.heights)
    return np.asarray(np.log(distance + height[one] + height[other]) + np.float32(member.log_unit_ms))


def mean_and_spread(members: Sequence[EnsembleMember], one: Indices, other: Indices | slice) -> tuple[Floats, Floats]:
    """Returns the mean and standard deviation of the members' logarithms."""
    each = np.stack([member_log_ms(member, one, other) for member in members])
    return each.mean(0), each.std(0)
