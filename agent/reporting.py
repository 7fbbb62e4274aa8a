"""Writes the latest measurements to etcd: what changed enough, in one transaction under the agent's lease.

While a loop of the agent hangs, nothing is written and the lease ends: nothing keeps frozen data alive.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from math import dist, inf, isclose
from random import Random
from typing import Protocol, TypeVar

from msgspec import Struct, structs

from agent.hardware.monitor import HardwareMonitor
from agent.node_ownership import NodeAlreadyOwned, NodeOwnership, claim_node
from agent.peering.peer_refresh import PeerRefresher
from agent.rtt.peer_stats import PeerStats
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import keys
from leadsman.state.metric_names import SRIOV_LIMITED, SRIOV_LIMITED_FUNCTIONS, SRIOV_LINK_HEADROOM
from leadsman.state.records import (
    LARGEST_VALUE_BYTES,
    AnyRecord,
    Hardware,
    Heartbeat,
    Identity,
    Latency,
    PeerLatency,
    Reachability,
    RingCoordinate,
    RingEntry,
    encode_record,
    record_size_bytes,
)
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import (
    Delete,
    LeaseLost,
    OutOfSpace,
    Precondition,
    PreconditionFailed,
    Put,
    Store,
    StoreError,
    Unavailable,
    Unreachable,
)


class Loop(Protocol):
    """Counts what a loop of the agent has done. rounds: stands still while the loop hangs."""

    @property
    def rounds(self) -> int: ...


class LoopLiveness(Struct):
    """Finds loops that make no progress. While one hangs, /healthz fails and reports stop.

    limit_seconds: a loop whose rounds do not change for so long is stalled.
    clock: monotonic seconds.
    """

    loops: Mapping[str, Loop]
    limit_seconds: float
    clock: Callable[[], float]
    _seen: dict[str, tuple[int, float]] = {}

    def stalled(self) -> dict[str, float]:
        """Maps each stalled loop to the seconds since its count last moved, for those beyond the limit."""
        now = self.clock()
        ages = {name: self._age(name, loop.rounds, now) for name, loop in self.loops.items()}
        return {name: age for name, age in ages.items() if age > self.limit_seconds}

    def _age(self, name: str, rounds: int, now: float) -> float:
        count, since = self._seen.setdefault(name, (rounds, now))
        if count != rounds:
            self._seen[name] = (rounds, now)
            return 0.0
        return now - since


# Decides whether a record has changed enough to be written again.
#
# The heartbeat vouches for what was written before, so a reader is wrong by at most the band. The bands are
# about what a window's statistics move by chance; a wider one would save little and cost accuracy.

MEDIAN_BAND_MS = 0.05
MEDIAN_BAND_RATIO = 0.05
TAIL_BAND_MS = 0.25
TAIL_BAND_RATIO = 0.20
LOSS_BAND_RATIO = 0.05
HARDWARE_BAND_RATIO = 0.10
HARDWARE_BANDS = {"_ratio": 0.02, "_celsius": 1.0, "_per_cpu": 0.1}
"""Maps endings of a metric's name to a band in the metric's unit. Other metrics have the relative band only."""
EXACT_METRICS = frozenset({SRIOV_LINK_HEADROOM, SRIOV_LIMITED, SRIOV_LIMITED_FUNCTIONS})
"""Each change of these is written: decisions add them up with what pods ask, and within a band a tenth of a link would
be promised twice. They change with pods only."""
COORDINATE_BAND_MS = 0.05
COORDINATE_BAND_REACHES = 0.1
"""A coordinate is written when it moved by this share of the RTT within which other nodes are near; a smaller move
changes no order of nodes."""
ERROR_BAND_RATIO = 0.1
REACH_BAND_RATIO = 0.25

V = TypeVar("V")


def worth_writing(before: AnyRecord | None, after: AnyRecord) -> bool:
    """Tells whether the record changed enough. before: as it was last written; None when it was not."""
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
        or before.silences.keys() != after.silences.keys()
        or bool(before.local_fault) is not bool(after.local_fault)
    )


def _entry_moved(before: RingEntry, after: RingEntry) -> bool:
    """Ignores which nodes are nearest: they change with every microsecond, and those written last are near enough."""
    if before.coordinate is None or after.coordinate is None:
        return before != after
    new = len(before.near) < len(after.near)
    band_ms = max(COORDINATE_BAND_MS, COORDINATE_BAND_REACHES * (after.reach_ms or 0.0))
    return (
        before.address != after.address
        or new
        or _shift_ms(before.coordinate, after.coordinate) > band_ms
        or abs(before.coordinate.error - after.coordinate.error) > ERROR_BAND_RATIO
        or _moved(before.reach_ms, after.reach_ms, COORDINATE_BAND_MS, REACH_BAND_RATIO)
    )


def _shift_ms(before: RingCoordinate, after: RingCoordinate) -> float:
    """Returns the most that an estimate can change, in milliseconds."""
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


NodeRecords = Mapping[type[AnyRecord], AnyRecord | None]
"""Maps each kind of record to what is to be written now. None: nothing is known, so the one written before must go."""


def current_records(
    stats: PeerStats, hardware: HardwareMonitor, peers: PeerRefresher, address: str, clock: Callable[[], float]
) -> NodeRecords:
    """Makes all records of the node from what its loops know now. clock: monotonic seconds."""
    now = clock()
    return {
        Latency: build_latency_record(stats.latencies(now), peers.selection.requested),
        Reachability: build_reachability_record(stats.reachability(now)),
        Hardware: hardware.record(now),
        RingEntry: peers.ring_entry(address),
    }


def build_reachability_record(found: Reachability) -> Reachability:
    """Returns the record, which must fit into one value of etcd: of very long names, silent peers are left out first.

    A silence that is not reported makes no node dead; an answer that is not reported could. The counts stay.
    """
    record = structs.replace(found, losses=dict(found.losses), silences=dict(found.silences))
    kept = sorted(record.losses, key=lambda name: name in record.silences)
    while record_size_bytes(record) > LARGEST_VALUE_BYTES:
        left_out = kept.pop()
        del record.losses[left_out]
        record.silences.pop(left_out, None)
    return record


def build_latency_record(peers: dict[str, PeerLatency], first: Collection[str] = ()) -> Latency:
    """Returns the record of all peers. Where very long names make it too large, the farthest peers are left out.

    first: requested peers, which are left out last.
    """
    ordered = sorted(peers.items(), key=lambda item: (item[0] not in first, _distance(item[1])))
    record = Latency(dict(ordered))
    while record_size_bytes(record) > LARGEST_VALUE_BYTES:
        record.peers.popitem()
    return record


def _distance(latency: PeerLatency) -> float:
    return float("inf") if latency.p50_ms is None else latency.p50_ms


log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 5.0
"""The agent reports within 8 s once the store answers again: this wait, then a claim and a report. Past 1,000 nodes the
wait stretches with the push interval."""
MAX_FIRST_BACKOFF_SECONDS = 60.0
"""Before an agent's first report, the wait after a call that was not answered in time: thousands may start together on
a ring that is still empty, which shows them no size."""


async def _at_once() -> float:
    return 0.0


class Reporter:
    """Claims the node and reports every push interval ± 10 %, until another agent owns the node: raises
    NodeAlreadyOwned.

    identity: to claim the node with; another zone has it claimed again with the next report.
    ownership: the claim; None before it and after it was lost.
    report_count, failures (by cause): since the start, for metrics.
    problem: why the last report failed.
    """

    def __init__(
        self,
        store: Store,
        node: str,
        identity: Identity,
        timing: Callable[[], ReportTiming],
        records: Callable[[], NodeRecords],
        liveness: LoopLiveness,
        rng: Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pause: Callable[[float], Awaitable[None]] | None = None,
        spread: Callable[[], Awaitable[float]] | None = None,
    ) -> None:
        """timing: asked before each report, because the push interval stretches with the cluster.

        pause: sleeps between two reports, and may end early when a report is due at once. None: as `sleep`.
        spread: returns, as soon as that is known, over how many seconds all agents spread a call that each makes;
            `timing` is then that of this cluster. None: 0.
        """
        self._store, self._node, self.identity = store, node, identity
        self._timing, self._records, self._liveness = timing, records, liveness
        self._rng, self._sleep, self._pause, self._spread = rng, sleep, pause or sleep, spread or _at_once
        self._backoff = Backoff(FIRST_BACKOFF_SECONDS, MAX_FIRST_BACKOFF_SECONDS, rng)
        self._reported: dict[type[AnyRecord], AnyRecord | None] = {}
        self._seq, self._renewed_at = 0, float("-inf")
        # The last heartbeat under this claim guards the next: in an etcd that was restored from a backup is an older
        # one, perhaps with this very claim and what was said then.
        self._last_beat: tuple[Precondition, ...] = ()
        self._first_interval_seconds = timing().push_interval_seconds
        self.ownership: NodeOwnership | None = None
        self.report_count = 0
        self.failures: Counter[str] = Counter()
        self.problem = ProblemLog(
            log, f"agent of node {node} does not report to etcd", f"agent of node {node} reports to etcd again"
        )

    async def run(self) -> None:
        """Never returns. Raises NodeAlreadyOwned: another agent writes this node; end this process.

        Agents that start together claim their nodes one after another.
        """
        await self._sleep(self._rng.uniform(0, await self._spread()))
        while True:
            try:
                await self.report()
            except StoreError as error:
                self.failures[type(error).__name__] += 1
                self.problem.report(error)
                await self._sleep(self._seconds_to_retry(error, await self._spread()))
            else:
                self._backoff.reset()
                await self._pause(self._interval_seconds())

    def _interval_seconds(self) -> float:
        return self._timing().push_interval_seconds * self._rng.uniform(0.9, 1.1)

    def _seconds_to_retry(self, error: StoreError, spread: float) -> float:
        """Returns the pause before a retry. Those of thousands of agents spread as their reports do. While etcd is
        full, they come at the rate of reports."""
        if isinstance(error, OutOfSpace):
            return self._interval_seconds()
        stretch, longest = self._timing().push_interval_seconds / self._first_interval_seconds, MAX_BACKOFF_SECONDS
        if not self.report_count:
            longest = max(longest, spread / stretch) if isinstance(error, Unreachable) else MAX_FIRST_BACKOFF_SECONDS
        return stretch * self._backoff.next_seconds(longest)

    async def report(self) -> None:
        """Reports once. While a loop is stalled it renews nothing, so that the node goes stale, as it should."""
        if stalled := self._liveness.stalled():
            self.problem.report(f"{', '.join(stalled)} made no progress; kubelet restarts the agent by /healthz")
            return
        timing = self._timing()
        try:
            ownership = self.ownership = await self._claimed(timing)
            await self._write(ownership, timing)
            await self._keep_lease(ownership, timing)
        except (LeaseLost, PreconditionFailed):
            self.ownership = None
            raise
        self.report_count += 1
        self.problem.clear()

    def fence(self) -> None:
        """Has the node claimed again before the next write, which changes the guard. For a write without a response:
        etcd may have it still, and would otherwise set older values when it wakes."""
        self.ownership = None

    async def close(self) -> None:
        """Revokes the lease, which deletes the node's records. Raises StoreError when the store cannot be reached."""
        if self.ownership is not None:
            await self._store.revoke(self.ownership.lease)
            self.ownership = None

    async def _keep_lease(self, ownership: NodeOwnership, timing: ReportTiming) -> None:
        """Renews the lease when too little of it is left."""
        now = self._liveness.clock()
        if self._renewed_at + ownership.lease_seconds - now < timing.shortest_lease_seconds:
            await self._store.keep_alive(ownership.lease)
            self._renewed_at = now

    async def _claimed(self, timing: ReportTiming) -> NodeOwnership:
        """Returns the claim that stands, unless its lease became too short as the cluster grew, or far too long, or
        another zone was found since."""
        claim, shortest, longest = self.ownership, timing.least_lease_seconds, 2 * timing.lease_seconds
        if claim and claim.identity.zone == self.identity.zone and shortest <= claim.lease_seconds <= longest:
            return claim
        self._reported = dict.fromkeys(self._reported)
        self._renewed_at, self._last_beat = self._liveness.clock(), ()
        return await self._waited_for_claim(timing)

    async def _waited_for_claim(self, timing: ReportTiming) -> NodeOwnership:
        """Waits until the lease of an agent that was killed expires, and no longer: one that lives on then is another
        agent's."""
        for _ in range(timing.lease_seconds + 2):
            try:
                return await self._claim(timing)
            except NodeAlreadyOwned as error:
                self.problem.report(error)
                await self._sleep(1.0)
        return await self._claim(timing)

    async def _claim(self, timing: ReportTiming) -> NodeOwnership:
        entry = self._records().get(RingEntry)
        assert entry is None or isinstance(entry, RingEntry)
        return await claim_node(self._store, self._node, self.identity, timing.lease_seconds, entry)

    async def _write(self, ownership: NodeOwnership, timing: ReportTiming) -> None:
        """Writes what changed. After a write that may have been done nobody knows what the store has, so all is written
        again."""
        now = {kind: record for kind, record in self._records().items() if record is not None}
        changed = [record for kind, record in now.items() if worth_writing(self._reported.get(kind), record)]
        gone = [Delete(keys.record_key(self._node, kind)) for kind in self._reported.keys() - now.keys()]
        before, after = self._reported, {kind: self._reported.get(kind) for kind in now}
        after |= {type(record): record for record in changed}
        self._reported = dict.fromkeys(self._reported | now)
        self._seq += 1
        beat = Heartbeat(ownership.identity.epoch, self._seq, timing.push_interval_seconds)
        puts = [Put(keys.record_key(self._node, type(record)), encode_record(record)) for record in (*changed, beat)]
        try:
            await self._store.write([*gone, *puts], ownership.lease, ownership.guard, *self._last_beat)
        except Unreachable:
            self._reported = before
            raise
        except Unavailable:
            self.fence()
            raise
        self._reported, self._last_beat = after, (Precondition(puts[-1].key, puts[-1].value),)
