"""Delays of the last 48 hours, in memory: each minute of the last 15, each third one of the hour, and half-hours.

Of each moment the median of every node is kept, and the round trips of pairs: of all pairs within the hour, of some of
each node before it. By its pairs one can tell which node moved: a pair's change is that of both its ends, and of a node
the median over its pairs is its own as long as most of its peers stayed where they were. All of it is lost when the
process ends, and begins again when more than MAX_NODES names were met.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from extender.api.requests import iso, time_of_day
from extender.api.view import DelayTable, grouped_median
from leadsman.network.measured_pairs import Floats, Indices

MINUTE_SECONDS, HOUR_SECONDS = 60.0, 3600.0

EACH_MINUTE_SECONDS, THEN_EACH_MINUTES = 15 * 60.0, 3
"""The hour has some 30 moments. One of 165,000 pairs, those of 5,000 nodes with 33 peers each, takes 0.7 MB."""

HALF_HOUR_SECONDS, LONGEST_SECONDS = 1800.0, 48 * 3600.0

MAX_PAIRS, MAX_HALF_HOUR_PAIRS = 170_000, 10_000
"""A moment keeps no more pairs than this: of a half-hour at 5,000 nodes two from each node and as many to it."""

MAX_NODES = 10_000


class _Moment(Struct, frozen=True, eq=False):
    """A moment holds what was measured then, in arrays by the node's number.

    pairs: how many were measured from each node. target, rtt_ms: of these pairs, one node's after the other's. A round
    trip is kept to 0.05 %.
    """

    at: float
    medians_ms: NDArray[np.float32]
    pairs: NDArray[np.uint16]
    target: NDArray[np.uint16]
    rtt_ms: NDArray[np.float16]

    @property
    def source(self) -> Indices:
        return np.repeat(np.arange(len(self.pairs)), self.pairs)

    @property
    def held_bytes(self) -> int:
        return sum(each.nbytes for each in (self.medians_ms, self.pairs, self.target, self.rtt_ms))

    def median_ms(self, node: int) -> float:
        return float(self.medians_ms[node]) if node < len(self.medians_ms) else np.nan

    def between(self, source: int, target: int) -> float:
        """Returns the round trip of one pair; NaN: not measured."""
        if source >= len(self.pairs):
            return np.nan
        begin = int(self.pairs[:source].sum())
        end = begin + int(self.pairs[source])
        found = self.rtt_ms[begin:end][self.target[begin:end] == target]
        return float(found[0]) if len(found) else np.nan

    def sampled(self) -> "_Moment":
        """Keeps a few pairs of each node, the same ones at each half-hour as long as they are measured."""
        if len(self.target) <= MAX_HALF_HOUR_PAIRS:
            return self
        source = self.source
        limit = max(1, MAX_HALF_HOUR_PAIRS // max(1, int(np.count_nonzero(self.pairs))))
        kept = np.arange(len(source)) - np.searchsorted(source, source) < limit
        pairs = np.minimum(self.pairs, limit)
        return _Moment(self.at, self.medians_ms, pairs, self.target[kept], self.rtt_ms[kept])


def _moment(at: float, number: Indices, table: DelayTable, nodes: int) -> _Moment:
    """Makes a moment of the history from the table.

    number: of each of the table's nodes.
    """
    medians = np.full(nodes, np.nan, np.float32)
    medians[number] = table.node_medians
    measured = np.flatnonzero(~table.is_lost)[:MAX_PAIRS]
    source, target = number[table.source[measured]], number[table.target[measured]]
    order = np.lexsort((target, source))
    pairs = np.bincount(source, minlength=nodes).astype(np.uint16)
    return _Moment(
        at, medians, pairs, target[order].astype(np.uint16), table.rtt_ms[measured][order].astype(np.float16)
    )


def _thinned(moments: Sequence[_Moment], now: float) -> list[_Moment]:
    """Returns the moments that stay beside one of `now`."""
    kept = list[_Moment]()
    for each in moments:
        age = now - each.at
        if HOUR_SECONDS < age <= LONGEST_SECONDS:
            if not kept or each.at // HALF_HOUR_SECONDS > kept[-1].at // HALF_HOUR_SECONDS:
                kept.append(each.sampled())
        elif age <= EACH_MINUTE_SECONDS or (age <= HOUR_SECONDS and each.at // MINUTE_SECONDS % THEN_EACH_MINUTES == 0):
            kept.append(each)
    return kept


def _changes(before: _Moment, after: _Moment) -> tuple[Indices, Indices, Floats]:
    """Returns source, target and change of the pairs that both moments have."""
    keys, later_keys = (each.source.astype(np.int64) << 32 | each.target for each in (before, after))
    _, was, now = np.intersect1d(keys, later_keys, assume_unique=True, return_indices=True)
    change_ms = after.rtt_ms[now].astype(np.float64) - before.rtt_ms[was]
    return before.source[was], before.target[was].astype(np.intp), change_ms


MIN_PAIRS = 5
"""Directed pairs below which a node's median says more about a peer than about the node: of three nodes nobody can tell
which one moved."""

LEAST_SHIFT_MS = 1.0
LEAST_SHARE = 0.1
"""A shift counts from so many ms and such a share of the node's median round trip on."""


def node_shifts_ms(one: Indices, other: Indices, change_ms: Floats, nodes: int) -> Floats:
    """Tells by how much each node moved away from all others; NaN with fewer than MIN_PAIRS pairs.

    change_ms: of the pairs (one[k], other[k]), NaN where either moment has no value.
    """
    ends, opposite = np.concatenate([one, other]), np.concatenate([other, one])
    change = np.concatenate([change_ms, change_ms])
    first = np.nan_to_num(_median_changes_ms(one, other, change_ms, nodes))
    moved = np.where(np.abs(first) >= LEAST_SHIFT_MS, first, 0.0)
    shift = grouped_median(ends, change - moved[opposite], nodes)
    pairs = np.bincount(ends[~np.isnan(change)], minlength=nodes)
    return np.where(pairs >= MIN_PAIRS, shift, np.nan)


def _median_changes_ms(one: Indices, other: Indices, change_ms: Floats, nodes: int) -> Floats:
    """Makes the first pass alone: each node's median, whatever its peers did."""
    return grouped_median(np.concatenate([one, other]), np.concatenate([change_ms, change_ms]), nodes)


def began_at(shift_since_ms: Sequence[float]) -> int:
    """Finds the moment since which a node has stood where it stands now.

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


class NodeShift(Struct, frozen=True):
    """A node that moved away from all others, or nearer to them, and stayed there. since: Unix seconds."""

    node: str
    shift_ms: float
    since: float

    @property
    def text(self) -> str:
        """Describes the move in one sentence, the same wherever it is shown."""
        direction = "farther from" if self.shift_ms > 0 else "nearer to"
        return f"{self.node} is {abs(self.shift_ms):.3g} ms {direction} everybody since {time_of_day(self.since)}"


class Moment(Struct, frozen=True):
    """One value of the history. rtt_ms: None: not measured then."""

    at: str
    rtt_ms: float | None


NodeAtTwoMoments = tuple[float, float, float | None]
"""The node's median at both, and by how much it moved itself; None: too few of its pairs have both."""


class DelayHistory:
    """Keeps delays of the last 48 hours. One thread adds and others read: what is kept is replaced as a whole.

    since: Unix seconds at which it begins. shifts: as of the last `add`, the largest first. steady: nodes
    that stayed where they were; what is in neither has too few pairs to tell.
    """

    def __init__(self, since: float) -> None:
        self._begin(since)

    def _begin(self, since: float) -> None:
        self.since = since
        self.shifts: Sequence[NodeShift] = ()
        self.steady: Collection[str] = frozenset()
        self._names = dict[str, int]()
        self._moments: Sequence[_Moment] = ()

    @property
    def held_bytes(self) -> int:
        """Returns how much memory the arrays take."""
        return sum(each.held_bytes for each in self._moments)

    @property
    def is_empty(self) -> bool:
        """Tells whether nothing is kept yet."""
        return not self._moments

    def add(self, at: float, table: DelayTable) -> None:
        """Keeps one minute. at: Unix seconds."""
        if len(self._names.keys() | set(table.names)) > MAX_NODES:
            self._begin(at)
        number = np.array([self._names.setdefault(name, len(self._names)) for name in table.names], np.intp)
        self._moments = [*_thinned(self._moments, at), _moment(at, number, table, len(self._names))]
        self.shifts, self.steady = self._find_shifts()

    def compare(self, before: float, after: float) -> tuple[float, float, Mapping[str, NodeAtTwoMoments]] | None:
        """Returns the kept moments nearest to the two, and each node with a median at both; None: nothing is kept."""
        moments, names = self._moments, list(self._names)
        if not moments:
            return None
        begin, end = (min(moments, key=lambda each: abs(each.at - at)) for at in (before, after))
        moved = node_shifts_ms(*_changes(begin, end), len(names)).tolist()
        medians = {name: (begin.median_ms(at), end.median_ms(at)) for at, name in enumerate(names)}
        found = {
            name: (round(was, 3), round(now, 3), None if np.isnan(moved[at]) else round(moved[at], 3))
            for at, (name, (was, now)) in enumerate(medians.items())
            if not np.isnan(was + now)
        }
        return begin.at, end.at, found

    def of_node(self, name: str) -> list[Moment]:
        """Returns the node's median at each moment; [] for a node that was never seen."""
        number = self._names.get(name)
        return [] if number is None else [_value(each.at, each.median_ms(number)) for each in self._moments]

    def of_pair(self, one: str, other: str) -> list[Moment]:
        """Returns the round trip of the slower direction at each moment of the hour."""
        a, b = self._names.get(one), self._names.get(other)
        if a is None or b is None:
            return []
        return [_value(each.at, float(np.fmax(each.between(a, b), each.between(b, a)))) for each in self._of_hour()]

    def _of_hour(self) -> Sequence[_Moment]:
        moments = self._moments
        return [each for each in moments if moments[-1].at - each.at <= HOUR_SECONDS]

    def _find_shifts(self) -> tuple[Sequence[NodeShift], Collection[str]]:
        """Compares now with the oldest minute; a node with too few pairs then is compared with one half as old."""
        *earlier, newest = self._of_hour()
        if not earlier:
            return (), frozenset()
        names, nodes = list(self._names), len(self._names)
        shift, later = (
            node_shifts_ms(*_changes(each, newest), nodes) for each in (earlier[0], earlier[len(earlier) // 2])
        )
        shift = np.where(np.isnan(shift), later, shift)
        moved = [at for at in range(nodes) if is_notable(float(shift[at]), float(newest.medians_ms[at]))]
        judged = np.flatnonzero(~np.isnan(shift)).tolist()
        steady = frozenset(names[at] for at in judged) - {names[at] for at in moved}
        since = self._since(np.array(moved, np.intp), earlier, newest) if moved else {}
        shifts = (NodeShift(names[at], float(shift[at]), since[at]) for at in moved)
        return sorted(shifts, key=lambda each: -abs(each.shift_ms)), steady

    def _since(self, nodes: Indices, earlier: Sequence[_Moment], newest: _Moment) -> Mapping[int, float]:
        """Returns when each of the nodes came to stand where it stands now; what was said of one before stays, although
        the minutes become fewer."""
        names, by_moment = list(self._names), list[Floats]()
        said = {each.node: each.since for each in self.shifts}
        for each in earlier:
            one, other, change_ms = _changes(each, newest)
            near = np.isin(one, nodes) | np.isin(other, nodes)
            by_moment.append(_median_changes_ms(one[near], other[near], change_ms[near], len(names))[nodes])
        times, found = [each.at for each in (*earlier, newest)], dict[int, float]()
        for node, column in zip(nodes.tolist(), np.array(by_moment).T.tolist(), strict=True):
            began, before = times[began_at(column)], said.get(names[node], 0.0)
            found[node] = before if abs(before - began) <= THEN_EACH_MINUTES * MINUTE_SECONDS else began
        return found


def _value(at: float, rtt_ms: float) -> Moment:
    return Moment(iso(at), None if np.isnan(rtt_ms) else round(rtt_ms, 3))
