"""Decides whether a record has changed enough to be written again. Pure.

The heartbeat vouches for what was written before, so a reader is wrong by at most the band. The bands are
about what a window's statistics move by chance; a wider one would save little and cost accuracy.
"""

from collections.abc import Callable, Mapping
from math import dist, inf, isclose
from typing import TypeVar

from leadsman.state.metric_names import SRIOV_LIMITED, SRIOV_LIMITED_FUNCTIONS, SRIOV_LINK_HEADROOM
from leadsman.state.records import AnyRecord, Hardware, Latency, PeerLatency, Reachability, RingCoordinate, RingEntry

MEDIAN_BAND_MS = 0.05
MEDIAN_BAND_RATIO = 0.05
TAIL_BAND_MS = 0.25
TAIL_BAND_RATIO = 0.20
LOSS_BAND_RATIO = 0.05
HARDWARE_BAND_RATIO = 0.10
HARDWARE_BANDS = {"_ratio": 0.02, "_celsius": 1.0, "_per_cpu": 0.1}
"""Ending of the metric's name → band in the metric's unit. Other metrics have the relative band only."""
EXACT_METRICS = frozenset({SRIOV_LINK_HEADROOM, SRIOV_LIMITED, SRIOV_LIMITED_FUNCTIONS})
"""What decisions add up with what pods ask: a tenth of a link would be promised twice. They change with pods only."""
COORDINATE_BAND_MS = 0.05
COORDINATE_BAND_REACHES = 0.1
"""Of the RTT within which other nodes are near; a smaller move changes no order of nodes."""
ERROR_BAND_RATIO = 0.1
REACH_BAND_RATIO = 0.25

V = TypeVar("V")


def worth_writing(before: AnyRecord | None, after: AnyRecord) -> bool:
    """before: as it was last written; None when it was not."""
    match before, after:
        case Latency(), Latency():
            return _any_moved(before.peers, after.peers, lambda _, a, b: _peer_moved(a, b))
        case Hardware(), Hardware():
            return _any_moved(before.values, after.values, _value_moved)
        case Reachability(), Reachability():
            return _answers_moved(before, after)
        case RingEntry(), RingEntry():
            return _entry_moved(before, after)
        case _:
            return before != after


def _any_moved(before: Mapping[str, V], after: Mapping[str, V], moved: Callable[[str, V, V], bool]) -> bool:
    return before.keys() != after.keys() or any(moved(name, before[name], after[name]) for name in after)


def _peer_moved(before: PeerLatency, after: PeerLatency) -> bool:
    return (
        before.method is not after.method
        or _moved(before.p50_ms, after.p50_ms, MEDIAN_BAND_MS, MEDIAN_BAND_RATIO)
        or _moved(before.min_ms, after.min_ms, MEDIAN_BAND_MS, MEDIAN_BAND_RATIO)
        or _moved(before.p95_ms, after.p95_ms, TAIL_BAND_MS, TAIL_BAND_RATIO)
        or _moved(before.loss_ratio, after.loss_ratio, LOSS_BAND_RATIO, 0.0)
    )


def _answers_moved(before: Reachability, after: Reachability) -> bool:
    """Ignores ages and further losses: a silent peer stays silent until it answers."""
    return (
        before.losses.keys() != after.losses.keys()
        or before.silent_peers != after.silent_peers
        or bool(before.local_fault) is not bool(after.local_fault)
    )


def _entry_moved(before: RingEntry, after: RingEntry) -> bool:
    """Ignores which nodes are nearest: they change with every microsecond, and those written last are near enough."""
    if before.coordinate is None or after.coordinate is None:
        return before != after
    where = (before.address, before.zone, before.rack) != (after.address, after.zone, after.rack)
    new = len(before.near) < len(after.near)
    band_ms = max(COORDINATE_BAND_MS, COORDINATE_BAND_REACHES * (after.reach_ms or 0.0))
    return (
        where
        or new
        or _shift_ms(before.coordinate, after.coordinate) > band_ms
        or abs(before.coordinate.error - after.coordinate.error) > ERROR_BAND_RATIO
        or _moved(before.reach_ms, after.reach_ms, COORDINATE_BAND_MS, REACH_BAND_RATIO)
    )


def _shift_ms(before: RingCoordinate, after: RingCoordinate) -> float:
    """The most that an estimate can change, in milliseconds."""
    moved = dist(before.point, after.point) if len(before.point) == len(after.point) else inf
    return moved + abs(before.height - after.height) + abs(before.adjustment - after.adjustment)


def _value_moved(name: str, before: float, after: float) -> bool:
    if name in EXACT_METRICS:
        return before != after
    band = next((band for ending, band in HARDWARE_BANDS.items() if name.endswith(ending)), 0.0)
    return _moved(before, after, band, HARDWARE_BAND_RATIO)


def _moved(before: float | None, after: float | None, band: float, band_ratio: float) -> bool:
    if before is None or after is None:
        return before is not after
    return not isclose(before, after, abs_tol=band, rel_tol=band_ratio)
