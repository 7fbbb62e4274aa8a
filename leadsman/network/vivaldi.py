"""Updates the coordinate that a node keeps of itself, a little with every round trip that it measures.

The estimate of two nodes is the distance of their points + both heights + both adjustments. Standard library only, so
that an agent can afford it.

[1] Dabek, Cox, Kaashoek, Morris, "Vivaldi: a decentralized network coordinate system", SIGCOMM 2004.
[2] Ledlie, Gardner, Seltzer, "Network coordinates in the wild", NSDI 2007.
[3] Lee, Zhang, Sahu, Saha, "On suitability of Euclidean embedding of Internet hosts", SIGMETRICS 2006.
[4] hashicorp/serf, coordinate/: the same model, in use at scale.
[5] Huber, "Robust estimation of a location parameter", 1964.
"""

from collections.abc import Iterable, Sequence
from math import dist, hypot
from random import Random

from msgspec import Struct

MIN_RTT_MS, MAX_RTT_MS = 0.001, 60_000.0
"""A round trip outside of these is an error of the measurement."""


DIMENSIONS = 4
"""2 to 5 fit the Internet [1, fig. 12]; 4 loses nothing [4: 8]."""
ERROR_GAIN = MOVE_GAIN = 0.25
"""c_e and c_c of [1, section 3.4]; more follows faster and is less steady."""
MIN_HEIGHT_MS = 0.01
"""Keeps a height from turning negative [1, section 5.4]; below the round trip within a rack."""
WINDOW = 20
"""Residuals that the adjustment [3] and the limit of a pull are computed from."""
MAX_PULL_RATIO = 2.0
"""A pull is at most so many times the median residual of the window [5]."""
MIN_PULL_MS = 0.1
"""The limit of a pull is at least this, so that a node at rest can still be moved."""
GRAVITY_MS = 4_000.0
"""Distance of a point from the origin at which gravity pulls 1 ms a round trip [2, section 5.2]."""
MAX_ERROR = 1.5
"""The error of a node that has measured nothing [4]."""
MIN_ERROR = 0.05
"""The least error that a peer is credited with, so that a false claim weighs at most 20 times a newcomer."""


class Coordinate(Struct, frozen=True):
    """The coordinate that a node publishes, in milliseconds; `error` is the mean relative error that it expects."""

    point: tuple[float, ...]
    height: float
    adjustment: float = 0.0
    error: float = MAX_ERROR


class VivaldiState(Struct, frozen=True):
    """Says what a node keeps of itself. residuals: the last ones, measured less predicted, in milliseconds."""

    coordinate: Coordinate
    residuals: tuple[float, ...] = ()


def initial_state() -> VivaldiState:
    """Returns the state of a node that joins."""
    return VivaldiState(Coordinate((0.0,) * DIMENSIONS, MIN_HEIGHT_MS))


def estimate_ms(one: Coordinate, other: Coordinate) -> float:
    """Returns the estimated RTT, with adjustments unless those would make it negative [4]."""
    plain = _unadjusted_ms(one, other)
    adjusted = plain + one.adjustment + other.adjustment
    return adjusted if adjusted > 0 else plain


def update(own: VivaldiState, peer: Coordinate, rtt_ms: float, rng: Random) -> VivaldiState:
    """Returns `own` after one round trip to `peer`. A round trip that makes no sense moves nothing.

    Whatever the peer claims, the coordinate stays within MAX_RTT_MS, as its record must, and one update moves the point
    by at most MOVE_GAIN times the pull that MAX_PULL_RATIO allows, plus gravity; the other k - 1 peers outvote it.
    Before the window is full, it moves by at most MOVE_GAIN times the round trip.
    """
    if not MIN_RTT_MS <= rtt_ms <= MAX_RTT_MS:
        return own
    residual = max(-MAX_RTT_MS, rtt_ms - _unadjusted_ms(own.coordinate, peer))
    weight, error = _weight_and_error(own.coordinate, peer, abs(residual) / rtt_ms)
    pull = _clamp_pull(max(-rtt_ms, residual), own.residuals)
    point, height = _apply_force(own.coordinate, peer, MOVE_GAIN * weight * pull, rng)
    residuals = (*own.residuals, residual)[-WINDOW:]
    adjustment = median(residuals) / 2 if len(residuals) == WINDOW else 0.0
    return VivaldiState(Coordinate(_apply_gravity(point), height, adjustment, error), residuals)


def median(values: Iterable[float]) -> float:
    """Returns the median of some values. statistics.median is the same, and its module takes 0.4 MB of each agent."""
    ranked = sorted(values)
    middle = len(ranked) // 2
    return ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2.0


def _unadjusted_ms(one: Coordinate, other: Coordinate) -> float:
    return dist(one.point, other.point) + one.height + other.height


def _weight_and_error(own: Coordinate, peer: Coordinate, miss: float) -> tuple[float, float]:
    """Says how much to move, 0..1, and our own error after it: [1, algorithm in figure 5]."""
    weight = own.error / (own.error + max(MIN_ERROR, min(peer.error, MAX_ERROR)))
    share = ERROR_GAIN * weight
    error = min(miss, MAX_ERROR) * share + own.error * (1 - share)
    return weight, max(MIN_ERROR, min(error, MAX_ERROR))


def _clamp_pull(residual: float, residuals: Sequence[float]) -> float:
    """Returns the pull within its limit. A newcomer has none, because it has far to go."""
    if len(residuals) < WINDOW:
        return residual
    most = max(MIN_PULL_MS, MAX_PULL_RATIO * median(map(abs, residuals)))
    return max(-most, min(most, residual))


def _apply_force(own: Coordinate, peer: Coordinate, force: float, rng: Random) -> tuple[tuple[float, ...], float]:
    """Moves along the line between the two: [1, section 5.4]. At the same point any direction will do."""
    apart = tuple(a - b for a, b in zip(own.point, peer.point, strict=True))
    length = hypot(*apart)
    if length < MIN_RTT_MS:
        apart = tuple(rng.gauss(0, 1) for _ in own.point)
        return _plus(own.point, apart, force / hypot(*apart)), own.height
    height = own.height + force * (own.height + peer.height) / length
    return _plus(own.point, apart, force / length), min(max(height, MIN_HEIGHT_MS), MAX_RTT_MS)


def _apply_gravity(point: tuple[float, ...]) -> tuple[float, ...]:
    """Moves towards the origin, so that the whole network does not drift away."""
    length = hypot(*point)
    nearer = _plus(point, point, -min(1.0, length / GRAVITY_MS**2)) if length else point
    return tuple(max(-MAX_RTT_MS, min(MAX_RTT_MS, each)) for each in nearer)


def _plus(point: Sequence[float], direction: Sequence[float], factor: float) -> tuple[float, ...]:
    return tuple(a + factor * b for a, b in zip(point, direction, strict=True))
