"""Delays of the last 48 hours, in memory: each minute of the last hour, and before that each half-hour.

Of a minute every pair's round trip is kept, so that one can tell which node moved; of a half-hour the median of each
node. Pairs come and go as agents choose other peers: those that were measured longest ago make room. It is lost when
the process ends, and begins again when more than MAX_NODES names were met.
"""

import threading
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct

from extender.api.delay_table import DelayTable
from extender.api.history_rings import HALF_HOURS, MINUTES, NodeRing, PairRing
from extender.api.shifts import began_at, is_notable, median_changes_ms, node_shifts_ms
from leadsman.network.measured_pairs import Floats, Indices

MINUTE_SECONDS, HALF_HOUR_SECONDS = 60.0, 1800.0
MAX_NODES = 10_000


class NodeShift(Struct, frozen=True):
    """A node that moved away from all others, or nearer, and stayed there. since: Unix seconds."""

    node: str
    shift_ms: float
    since: float


class Moment(Struct, frozen=True):
    """One kept value. at: Unix seconds. rtt_ms: None: not measured then."""

    at: float
    rtt_ms: float | None


class MomentMedians(Struct, frozen=True, eq=False):
    """The median round trip of each node at one moment. at: Unix seconds. by_node: nodes with one."""

    at: float
    by_node: Mapping[str, float]


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
        self._minutes, self._half_hours, self._pairs = NodeRing(MINUTES), NodeRing(HALF_HOURS), PairRing(MAX_NODES)

    @property
    def held_bytes(self) -> int:
        """Memory of the arrays."""
        return self._minutes.held_bytes + self._half_hours.held_bytes + self._pairs.held_bytes

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

    def medians_at(self, at: float) -> MomentMedians | None:
        """The kept moment nearest to `at`; None: nothing is kept."""
        with self._lock:
            return self._medians_at(at)

    def _medians_at(self, at: float) -> MomentMedians | None:
        moments = self._moments
        if not moments:
            return None
        nearest = min(moments, key=lambda each: abs(each - at))
        ring = self._minutes if nearest in self._minutes.times else self._half_hours
        values = ring.at(nearest)
        known = {name: float(values[number]) for name, number in self._names.items() if number < len(values)}
        return MomentMedians(nearest, {name: value for name, value in known.items() if not np.isnan(value)})

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
        one, other, before, now = self._pairs.compare(minute)
        return node_shifts_ms(one, other, now - before, len(self._names))

    def _since(self, nodes: Indices) -> Mapping[int, float]:
        """When each of the nodes came to stand where it stands now."""
        times, by_minute = self._pairs.times, list[Floats]()
        for minute in range(len(times) - 1):
            one, other, before, now = self._pairs.compare(minute, nodes)
            by_minute.append(median_changes_ms(one, other, now - before, len(self._names))[nodes])
        columns = np.array(by_minute).T.tolist()
        return {node: times[began_at(column)] for node, column in zip(nodes.tolist(), columns, strict=True)}


def _spread(number: Indices, values: Floats, size: int) -> Floats:
    result = np.full(size, np.nan)
    result[number] = values
    return result


def _moment(at: float, rtt_ms: float) -> Moment:
    return Moment(at, None if np.isnan(rtt_ms) else round(rtt_ms, 3))
