"""Whether a record has changed enough to be worth a write. Pure.

The heartbeat vouches for what was written before, so a reader is wrong by at most the band. The bands are
about what a window's statistics move by chance; a wider one would save little and cost accuracy.
"""

from collections.abc import Callable, Mapping
from math import isclose
from typing import TypeVar

from clusterstate.records import AnyRecord, Hardware, Latency, PeerLatency

MEDIAN_BAND_MS = 0.05
MEDIAN_BAND_RATIO = 0.05
TAIL_BAND_MS = 0.25
TAIL_BAND_RATIO = 0.20
LOSS_BAND_RATIO = 0.05
HARDWARE_BAND_RATIO = 0.10
HARDWARE_BANDS = {"_ratio": 0.02, "_celsius": 1.0, "_per_cpu": 0.1}
"""By the ending of the metric's name, in the metric's unit; others have the relative band only."""


V = TypeVar("V")


def worth_writing(before: AnyRecord | None, after: AnyRecord) -> bool:
    match before, after:
        case Latency(), Latency():
            return _any_moved(before.peers, after.peers, lambda _, a, b: _peer_moved(a, b))
        case Hardware(), Hardware():
            return _any_moved(before.values, after.values, _value_moved)
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


def _value_moved(name: str, before: float, after: float) -> bool:
    band = next((band for ending, band in HARDWARE_BANDS.items() if name.endswith(ending)), 0.0)
    return _moved(before, after, band, HARDWARE_BAND_RATIO)


def _moved(before: float | None, after: float | None, band: float, band_ratio: float) -> bool:
    if before is None or after is None:
        return before is not after
    return not isclose(before, after, abs_tol=band, rel_tol=band_ratio)
