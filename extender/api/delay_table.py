"""All probe windows of a snapshot as arrays, so that 165,000 of them are counted and sorted in milliseconds."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from leadsman.network.measured_pairs import Floats, Indices
from leadsman.state.records import PeerLatency
from leadsman.state.snapshot import Freshness, Snapshot

_NO_PEERS: Mapping[str, PeerLatency] = {}


class DelayTable(Struct, frozen=True, eq=False, dict=True):
    """What the fresh agents measured. A row for each window, by source and then target.

    names: all nodes of the snapshot, ascending; source and target are places in it.
    rtt_ms: the median of the window; NaN: every probe was lost.
    jitter_ms: NaN: unknown.
    """

    names: tuple[str, ...]
    source: Indices
    target: Indices
    rtt_ms: Floats
    jitter_ms: Floats

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Node → its place in `names`."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def keys(self) -> NDArray[Any]:
        """Ascending; one number a directed pair."""
        return self.source.astype(np.int64) * max(1, len(self.names)) + self.target

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Whether each window has no reply."""
        return np.isnan(self.rtt_ms)

    def rows_of(self, source: Indices, target: Indices) -> Indices:
        """The row of each pair; -1: it was not probed."""
        pair = source.astype(np.int64) * max(1, len(self.names)) + target
        if not len(self.keys):
            return np.full(pair.shape, -1)
        row = np.minimum(np.searchsorted(self.keys, pair), len(self.keys) - 1)
        return np.where(self.keys[row] == pair, row, -1)

    @cached_property
    def node_medians(self) -> Floats:
        """The median round trip that each node measured; NaN: none."""
        return grouped_median(self.source, self.rtt_ms, len(self.names))

    @cached_property
    def node_jitters(self) -> Floats:
        """As node_medians."""
        return grouped_median(self.source, self.jitter_ms, len(self.names))


def delay_table(snapshot: Snapshot, now: float) -> DelayTable:
    """The windows of nodes that are fresh, with at least one probe sent, to nodes of the snapshot. now: monotonic."""
    names = tuple(sorted(snapshot.nodes))
    index = {name: at for at, name in enumerate(names)}
    source, target, rtt_ms, jitter_ms = list[int](), list[int](), list[float](), list[float]()
    unknown = float("nan")
    for at, name in enumerate(names):
        state = snapshot.nodes[name]
        peers = state.latency.peers if state.latency and state.freshness(now) is Freshness.FRESH else _NO_PEERS
        for peer, window in sorted(peers.items()):
            place = index.get(peer)
            if place is not None and place != at and window.sent:
                source.append(at)
                target.append(place)
                rtt_ms.append(unknown if window.p50_ms is None else window.p50_ms)
                jitter_ms.append(unknown if window.jitter_ms is None else window.jitter_ms)
    return DelayTable(
        names,
        np.array(source, np.intp),
        np.array(target, np.intp),
        np.array(rtt_ms, np.float64),
        np.array(jitter_ms, np.float64),
    )


def grouped_median(group: Indices, values: Floats, groups: int) -> Floats:
    """The median of the values of each group, NaN where it has none; NaN values do not count."""
    return grouped_quantiles(group, values, groups, (0.5,))[0]


def grouped_quantiles(group: Indices, values: Floats, groups: int, quantiles: tuple[float, ...]) -> list[Floats]:
    """For each quantile an array by group, NaN where the group has no value. Interpolated linearly."""
    known = ~np.isnan(values)
    order = np.lexsort((values[known], group[known]))
    ordered, counts = values[known][order], np.bincount(group[known], minlength=groups)
    begin = np.cumsum(counts) - counts
    results = []
    for quantile in quantiles:
        place = begin + quantile * np.maximum(counts - 1, 0)
        low = np.floor(place).astype(np.intp)
        if len(ordered):
            last = len(ordered) - 1
            lower, upper = ordered[np.minimum(low, last)], ordered[np.minimum(np.ceil(place).astype(np.intp), last)]
            result = lower + (place - low) * (upper - lower)
        else:
            result = np.zeros(groups)
        results.append(np.where(counts > 0, result, np.nan))
    return results
