"""Delays of the last 48 hours, in memory: each minute of the last hour, and before that each half-hour.

Of each moment the median of every node is kept, and the round trips of pairs: of all pairs within the hour, of some of
each node before it. By its pairs one can tell which node moved: a pair's change is that of both its ends, and of a node
the median over its pairs is its own as long as most of its peers stayed where they were. Pairs come and go as agents
choose other peers: those that were measured longest ago make room. All of it is lost when the process ends, and begins
again when more than MAX_NODES names were met.
"""

import threading
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from extender.api.delay_table import DelayTable, grouped_median
from extender.api.requests import iso, time_of_day
from leadsman.network.measured_pairs import Floats, Indices

MINUTES, HALF_HOURS = 60, 96

MAX_PAIRS = 170_000
"""Their 60 minutes take 20.4 MB. 5,000 nodes with 33 peers each are 165,000 directed pairs."""

MAX_HALF_HOUR_PAIRS = 20_000
"""Their 96 half-hours take 3.8 MB. At 5,000 nodes they are four pairs from each node and as many to it."""

PairValues = tuple[Indices, Indices, Floats]
"""Source, target and round trip in ms, a place for each directed pair that was measured."""

_FIRST_COLUMNS = 64
_LEAST_MS, _LOG_STEP = 0.001, 0.0003
"""A pair's round trip takes 16 bits, as a logarithm: 0.001 ms to 340 s in steps of 0.03 %. 0: not measured."""


def compare_pairs(before: PairValues, after: PairValues) -> tuple[Indices, Indices, Floats, Floats]:
    """Source, target and both round trips of the pairs that both moments have."""
    keys, later_keys = (source.astype(np.int64) << 32 | target for source, target, _ in (before, after))
    _, was, now = np.intersect1d(keys, later_keys, assume_unique=True, return_indices=True)
    return before[0][was], before[1][was], before[2][was], after[2][now]


class _Times:
    """Which row holds which moment."""

    def __init__(self, rows: int) -> None:
        self._rows, self._count = rows, 0
        self._at = [0.0] * rows

    @property
    def times(self) -> Sequence[float]:
        """Unix seconds of the kept moments, ascending."""
        return [self._at[row] for row in self._ordered_rows()]

    @property
    def newest_at(self) -> float:
        """0 before the first."""
        return self._at[(self._count - 1) % self._rows] if self._count else 0.0

    def _ordered_rows(self) -> Sequence[int]:
        return [count % self._rows for count in range(max(0, self._count - self._rows), self._count)]

    def _next_row(self, at: float) -> int:
        row = self._count % self._rows
        self._at[row] = at
        self._count += 1
        return row


class NodeRing(_Times):
    """Values in ms, NaN where there is none. Columns are node numbers."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self._values = np.full((rows, _FIRST_COLUMNS), np.nan, np.float32)

    @property
    def held_bytes(self) -> int:
        return self._values.nbytes

    def add(self, at: float, values: Floats) -> None:
        """values: by node number; there may be more than before."""
        if len(values) > self._values.shape[1]:
            more = len(values) + len(values) // 4 - self._values.shape[1]
            self._values = np.pad(self._values, ((0, 0), (0, more)), constant_values=np.nan)
        row = self._next_row(at)
        self._values[row] = np.nan
        self._values[row, : len(values)] = values

    def at(self, at: float) -> Floats:
        """The values of a kept moment."""
        return np.asarray(self._values[self._at.index(at)])

    def of(self, number: int) -> list[tuple[float, float]]:
        """Moment and value of one node."""
        if number >= self._values.shape[1]:
            return [(at, np.nan) for at in self.times]
        return [(self._at[row], float(self._values[row, number])) for row in self._ordered_rows()]

    def median_of_last(self, moments: int) -> Floats:
        """Of each node over the newest moments that have a value of it."""
        ordered = np.sort(self._values[list(self._ordered_rows()[-moments:])], axis=0)  # NaN comes last.
        count = (~np.isnan(ordered)).sum(0)
        middle = ordered[np.maximum(count - 1, 0) // 2, np.arange(ordered.shape[1])]
        return np.asarray(middle)


class PairRing(_Times):
    """Values of directed pairs, a bounded number: a new pair takes the column of the one measured longest ago."""

    def __init__(self, nodes: int, rows: int, most: int) -> None:
        """nodes: above every node's number. most: pairs."""
        super().__init__(rows)
        self._nodes, self._most = nodes, most
        self._keys = np.full(_FIRST_COLUMNS, -1, np.int64)
        self._measured_in = np.full(_FIRST_COLUMNS, -1, np.int32)
        self._values = np.zeros((rows, _FIRST_COLUMNS), np.uint16)

    @property
    def held_bytes(self) -> int:
        return self._values.nbytes + self._keys.nbytes + self._measured_in.nbytes

    def add(self, at: float, source: Indices, target: Indices, rtt_ms: Floats) -> None:
        """Each pair once. What is beyond the most is left out."""
        keys = (source.astype(np.int64) * self._nodes + target)[: self._most]
        row = self._next_row(at)
        columns = self._columns_of(keys)
        self._values[row] = 0
        self._values[row, columns] = _encoded(rtt_ms[: self._most])

    def of(self, source: int, target: int) -> Floats:
        """The pair's value at each of `times`, NaN where there is none."""
        column = np.flatnonzero(self._keys == source * self._nodes + target)
        if not len(column):
            return np.full(len(self.times), np.nan)
        return _decoded(self._values[list(self._ordered_rows()), column[0]])

    def at(self, at: float) -> PairValues:
        """The pairs that were measured at a kept moment."""
        values = self._values[self._at.index(at)]
        measured = np.flatnonzero(values)
        keys = self._keys[measured]
        return (keys // self._nodes).astype(np.intp), (keys % self._nodes).astype(np.intp), _decoded(values[measured])

    def _columns_of(self, keys: NDArray[np.int64]) -> Indices:
        """The column of each key, made where there is none."""
        order = np.argsort(self._keys)
        column = order[np.minimum(np.searchsorted(self._keys, keys, sorter=order), len(order) - 1)]
        is_new = self._keys[column] != keys
        self._measured_in[column[~is_new]] = self._count
        missing = int(is_new.sum())
        self._grow(missing)
        oldest = np.argsort(self._measured_in, kind="stable")[:missing]
        self._values[:, oldest] = 0
        self._keys[oldest] = keys[is_new]
        self._measured_in[oldest] = self._count
        column[is_new] = oldest
        return np.asarray(column)

    def _grow(self, missing: int) -> None:
        """Until free columns are enough, or the most are there."""
        free = int((self._measured_in < 0).sum())
        size = len(self._keys)
        if missing > free and size < self._most:
            more = min(self._most, max(size + missing - free, size + size // 4)) - size
            self._keys = np.pad(self._keys, (0, more), constant_values=-1)
            self._measured_in = np.pad(self._measured_in, (0, more), constant_values=-1)
            self._values = np.pad(self._values, ((0, 0), (0, more)))


def _encoded(rtt_ms: Floats) -> NDArray[np.uint16]:
    steps = np.log(np.maximum(rtt_ms, _LEAST_MS) / _LEAST_MS) / _LOG_STEP
    return (1 + np.minimum(np.round(steps), 65_534)).astype(np.uint16)


def _decoded(values: NDArray[np.uint16]) -> Floats:
    rtt_ms = _LEAST_MS * np.exp((values.astype(np.float64) - 1) * _LOG_STEP)
    return np.where(values > 0, rtt_ms, np.nan)


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
    """Tells whether a person should hear of the shift. median_ms: of the node's round trips now."""
    return bool(abs(shift_ms) >= max(LEAST_SHIFT_MS, LEAST_SHARE * median_ms))


MINUTE_SECONDS, HALF_HOUR_SECONDS = 60.0, 1800.0
MAX_NODES = 10_000


class NodeShift(Struct, frozen=True):
    """A node that moved away from all others, or nearer, and stayed there. since: Unix seconds."""

    node: str
    shift_ms: float
    since: float

    @property
    def text(self) -> str:
        """The move in one sentence, the same wherever it is shown."""
        direction = "farther from" if self.shift_ms > 0 else "nearer to"
        return f"{self.node} is {abs(self.shift_ms):.3g} ms {direction} everybody since {time_of_day(self.since)}"


class Moment(Struct, frozen=True):
    """One kept value. rtt_ms: None: not measured then."""

    at: str
    rtt_ms: float | None


NodeAtTwoMoments = tuple[float, float, float | None]
"""The node's median at both, and by how much it moved itself; None: too few of its pairs have both."""


class DelayHistory:
    """One thread adds, others read; at 5,000 nodes a reader may wait for a second while a minute is added.

    since: Unix seconds at which it begins. shifts: as of the last `add`, the largest first. steady: nodes
    that stayed where they were; what is in neither has too few pairs to tell.
    """

    def __init__(self, since: float) -> None:
        self._lock = threading.Lock()
        self._begin(since)

    def _begin(self, since: float) -> None:
        self.since = since
        self.shifts: Sequence[NodeShift] = ()
        self.steady: Collection[str] = frozenset()
        self._names = dict[str, int]()
        self._minutes, self._half_hours = NodeRing(MINUTES), NodeRing(HALF_HOURS)
        self._pairs = PairRing(MAX_NODES, MINUTES, MAX_PAIRS)
        self._half_hour_pairs = PairRing(MAX_NODES, HALF_HOURS, MAX_HALF_HOUR_PAIRS)

    @property
    def held_bytes(self) -> int:
        """Memory of the arrays."""
        return sum(ring.held_bytes for ring in (self._minutes, self._half_hours, self._pairs, self._half_hour_pairs))

    def add(self, at: float, table: DelayTable) -> None:
        """Keeps one minute. at: Unix seconds."""
        with self._lock:
            self._add(at, table)

    def _add(self, at: float, table: DelayTable) -> None:
        if len(self._names.keys() | set(table.names)) > MAX_NODES:
            self._begin(at)
        number = np.array([self._names.setdefault(name, len(self._names)) for name in table.names], np.intp)
        if self._is_half_hour_over(at):
            self._half_hours.add(self._minutes.newest_at, self._minutes.median_of_last(30))
            self._half_hour_pairs.add(self._minutes.newest_at, *_sample(*self._pairs.at(self._minutes.newest_at)))
        self._minutes.add(at, _spread(number, table.node_medians, len(self._names)))
        measured = ~table.is_lost
        source, target = number[table.source[measured]], number[table.target[measured]]
        self._pairs.add(at, source, target, table.rtt_ms[measured])
        self.shifts, self.steady = self._find_shifts()

    def _is_half_hour_over(self, at: float) -> bool:
        before = self._minutes.newest_at
        return bool(before) and at // HALF_HOUR_SECONDS > before // HALF_HOUR_SECONDS

    @property
    def _moments(self) -> Sequence[float]:
        """Unix seconds of all that is kept, ascending."""
        minutes = self._minutes.times
        return [*(at for at in self._half_hours.times if not minutes or at < minutes[0]), *minutes]

    @property
    def is_empty(self) -> bool:
        """Tells whether nothing is kept yet."""
        return not self._moments

    def compare(self, before: float, after: float) -> tuple[float, float, Mapping[str, NodeAtTwoMoments]] | None:
        """The kept moments nearest to the two, and each node that has a median at both. None: nothing is kept."""
        with self._lock:
            return self._compare(before, after) if self._moments else None

    def _compare(self, before: float, after: float) -> tuple[float, float, Mapping[str, NodeAtTwoMoments]]:
        begin, end = (min(self._moments, key=lambda each: abs(each - at)) for at in (before, after))
        (medians_before, pairs_before), (medians_after, pairs_after) = self._at(begin), self._at(end)
        one, other, was, now = compare_pairs(pairs_before, pairs_after)
        moved = node_shifts_ms(one, other, now - was, len(self._names))
        known = {name: number for name, number in self._names.items() if number < len(medians_before)}
        columns = {name: (medians_before[at], medians_after[at], moved[at]) for name, at in known.items()}
        return begin, end, {name: _rounded(*each) for name, each in columns.items() if not np.isnan(each[:2]).any()}

    def _at(self, moment: float) -> tuple[Floats, PairValues]:
        """The medians and the pairs of a kept moment."""
        of_hour = moment in self._minutes.times
        medians, pairs = (self._minutes, self._pairs) if of_hour else (self._half_hours, self._half_hour_pairs)
        return medians.at(moment), pairs.at(moment)

    def of_node(self, name: str) -> list[Moment]:
        """The node's median at each moment; [] for a node that was never met."""
        with self._lock:
            return self._of_node(name)

    def _of_node(self, name: str) -> list[Moment]:
        number = self._names.get(name)
        if number is None:
            return []
        oldest_minute = min(self._minutes.times, default=np.inf)
        half_hours = [each for each in self._half_hours.of(number) if each[0] < oldest_minute]
        return [_moment(*each) for each in (*half_hours, *self._minutes.of(number))]

    def of_pair(self, one: str, other: str) -> list[Moment]:
        """The slower direction in each minute of the hour."""
        with self._lock:
            return self._of_pair(one, other)

    def _of_pair(self, one: str, other: str) -> list[Moment]:
        numbers = self._names.get(one), self._names.get(other)
        if numbers[0] is None or numbers[1] is None:
            return []
        there, back = self._pairs.of(numbers[0], numbers[1]), self._pairs.of(numbers[1], numbers[0])
        slower = np.fmax(there, back).tolist()
        return [_moment(at, rtt_ms) for at, rtt_ms in zip(self._pairs.times, slower, strict=True)]

    def _find_shifts(self) -> tuple[Sequence[NodeShift], Collection[str]]:
        """Against the oldest minute; where too few pairs of a node were measured then, against one half as old."""
        times, names = self._pairs.times, list(self._names)
        if len(times) < 2:
            return (), frozenset()
        shift = self._shifts_since(0)
        shift = np.where(np.isnan(shift), self._shifts_since(len(times) // 2), shift)
        medians = self._minutes.at(times[-1])
        moved = [at for at in range(len(names)) if is_notable(float(shift[at]), float(medians[at]))]
        judged = np.flatnonzero(~np.isnan(shift)).tolist()
        steady = frozenset(names[at] for at in judged) - {names[at] for at in moved}
        if not moved:
            return (), steady
        since = self._since(np.array(moved, np.intp))
        shifts = (NodeShift(names[at], float(shift[at]), since[at]) for at in moved)
        return sorted(shifts, key=lambda each: -abs(each.shift_ms)), steady

    def _shifts_since(self, minute: int) -> Floats:
        """minute: place in `times`."""
        one, other, before, now = self._pairs_since(minute)
        return node_shifts_ms(one, other, now - before, len(self._names))

    def _pairs_since(self, minute: int) -> tuple[Indices, Indices, Floats, Floats]:
        times = self._pairs.times
        return compare_pairs(self._pairs.at(times[minute]), self._pairs.at(times[-1]))

    def _since(self, nodes: Indices) -> Mapping[int, float]:
        """When each of the nodes came to stand where it stands now."""
        times, by_minute = self._pairs.times, list[Floats]()
        for minute in range(len(times) - 1):
            one, other, before, now = self._pairs_since(minute)
            near = np.isin(one, nodes) | np.isin(other, nodes)
            changes = median_changes_ms(one[near], other[near], (now - before)[near], len(self._names))
            by_minute.append(changes[nodes])
        columns = np.array(by_minute).T.tolist()
        return {node: times[began_at(column)] for node, column in zip(nodes.tolist(), columns, strict=True)}


def _sample(source: Indices, target: Indices, rtt_ms: Floats) -> PairValues:
    """The same few pairs of each node at each half-hour, as long as they are measured."""
    order = np.lexsort((target, source))
    first = np.searchsorted(source[order], source[order])
    limit = max(1, MAX_HALF_HOUR_PAIRS // max(1, len(np.unique(source))))
    kept = order[np.arange(len(order)) - first < limit]
    return source[kept], target[kept], rtt_ms[kept]


def _rounded(before_ms: float, after_ms: float, moved_ms: float) -> NodeAtTwoMoments:
    moved = None if np.isnan(moved_ms) else round(float(moved_ms), 3)
    return round(float(before_ms), 3), round(float(after_ms), 3), moved


def _spread(number: Indices, values: Floats, size: int) -> Floats:
    result = np.full(size, np.nan)
    result[number] = values
    return result


def _moment(at: float, rtt_ms: float) -> Moment:
    return Moment(iso(at), None if np.isnan(rtt_ms) else round(rtt_ms, 3))
