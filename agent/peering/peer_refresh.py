"""Keeps the peers current: reads the ring every so often, and soon after a peer stops answering; and keeps this node's
network coordinate and the rates at which it probes and reports.

A read that fails changes nothing: the agent goes on probing the same peers while the store is away.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from random import Random

from msgspec import Struct

from agent.peering import peer_selection
from agent.peering.peer_selection import RANDOM_ARC_SIZE, Arc, LostPeers, PeerSelection, RingMember, RingQuery
from agent.rtt.prober import Prober
from leadsman.network import vivaldi
from leadsman.network.vivaldi import Coordinate
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import keys
from leadsman.state.records import RingCoordinate, RingEntry
from leadsman.state.report_timing import REPORTS_PER_SECOND, ReportTiming, timing_for_nodes
from leadsman.state.store import KeyRange, Listing, Store, StoreError, Unreachable

# This node's network coordinate, which moves with its peers' replies. Pure: it holds state and does no I/O.
#
# Peers' coordinates are read every so often, and so are up to half a minute old. Pulling on an old one again and again
# would move two nodes past each other, so each read of a coordinate is used a few times only.

MAX_USES_PER_READ = 4
"""Says how often one read of a peer's coordinate is used."""
_MEDIAN_OF_REPLIES = 5
"""Replies whose median counts as the round trip: two late ones in a row move nothing."""


class OwnCoordinate:
    """Holds the Vivaldi state of this node."""

    def __init__(self, rng: Random) -> None:
        self.position = vivaldi.initial_state()
        self._rng = rng
        self._replies: dict[str, deque[float]] = {}
        self._peers: Mapping[str, Coordinate | None] = {}
        self._uses: dict[str, int] = {}

    @property
    def current(self) -> Coordinate:
        return self.position.coordinate

    def on_peers_read(self, peers: Mapping[str, Coordinate | None]) -> None:
        """Takes each peer's coordinate as last read; None when it has none. Replies of other nodes are dropped."""
        self._peers = peers
        self._replies = {name: replies for name, replies in self._replies.items() if name in peers}
        self._uses.clear()

    def update(self, name: str, rtt_ms: float) -> None:
        """Moves the coordinate by a peer's reply."""
        replies = self._replies.setdefault(name, deque(maxlen=_MEDIAN_OF_REPLIES))
        replies.append(rtt_ms)
        used, there = self._uses.get(name, 0), self._peers.get(name)
        if there is None or used >= MAX_USES_PER_READ:
            return
        self._uses[name] = used + 1
        self.position = vivaldi.update(self.position, there, sorted(replies)[len(replies) // 2], self._rng)


# How often to probe and to report, from the number of nodes alone.
#
# Each agent takes its share of two budgets of the whole cluster: probes a second, and reports a second (see
# leadsman.state.report_timing). The assumed number of nodes moves in steps of a tenth, upwards as soon as the
# estimate exceeds it and downwards only when the estimate is a third below, so that the estimate's noise of 6 %
# changes neither the intervals nor the lease. In the long run the noise's peaks set the step: 1.1 to 1.3 times the
# truth, on the budgets' safe side.

PROBE_BUDGET = 20_000.0
"""Probes a second in the whole cluster. At 16 peers a node probes each once a second up to 1,250 nodes, every 4 s at
5,000. In bytes: 3.7 MB/s of the network in all, requests and replies."""

MIN_NODES = 100
"""Below this number no interval stretches."""

_STEP = 1.1
_LOWER_AT = 0.65

MIN_PROBES_PER_WINDOW = 10
"""A window stretches when the interval leaves fewer probes in it; the p95 of fewer is their maximum."""


def assumed_nodes(before: int, estimate: float) -> int:
    """Returns the number of nodes to compute with: a step of the ladder MIN_NODES x 1.1^i, at or above the estimate."""
    if before >= estimate >= _LOWER_AT * before:
        return before
    steps = max(0, math.ceil(math.log(max(estimate, 1.0) / MIN_NODES, _STEP) - 1e-9))
    return math.ceil(MIN_NODES * _STEP**steps)


def probe_interval_seconds(base_seconds: float, peers: int, nodes: int, budget: float) -> float:
    """Time between two probes to one peer, so that `nodes` agents with `peers` each send at most `budget` a second."""
    return max(base_seconds, peers * nodes / budget)


def window_seconds(base_seconds: float, interval_seconds: float) -> float:
    """Returns the span of the statistics: stretched, so that it holds enough probes."""
    return max(base_seconds, MIN_PROBES_PER_WINDOW * interval_seconds)


# Reads the ring from the store: one call, and one more for each arc that wraps past the ring's end.


async def read_ring(store: Store, query: RingQuery) -> tuple[Arc, Arc, list[RingMember]]:
    """Reads the own arc, the random one, and the entries that the query names. Raises StoreError as the store raised
    it."""
    arcs = ((query.own_start, query.size), (query.random_start, RANDOM_ARC_SIZE))
    points = [KeyRange.single_key(keys.record_key(name, RingEntry)) for name in query.nodes]
    listings = await store.read_ranges([*(peer_selection.range_to_end(*arc) for arc in arcs), *points])
    own, other = [await _arc(store, *arc, first) for arc, first in zip(arcs, listings[:2], strict=True)]
    return own, other, peer_selection.decode_members(item for listing in listings[2:] for item in listing.items)


async def read_entry(store: Store, name: str) -> RingMember | None:
    """Returns the node's entry; None when there is no such node now."""
    (listing,) = await store.read_ranges([KeyRange.single_key(keys.record_key(name, RingEntry))])
    return next(iter(peer_selection.decode_members(listing.items)), None)


async def _arc(store: Store, start: int, count: int, first: Listing) -> Arc:
    """Returns the arc, completed from the ring's beginning where `first` is short.

    first: the part of the arc up to the ring's end.
    """
    items, missing = first.items, count - len(first.items)
    if missing:
        (rest,) = await store.read_ranges([peer_selection.range_from_start(start, missing)])
        items += rest.items
    return Arc(start % keys.RING_SIZE, tuple(peer_selection.decode_members(items)), len(items) < count)


log = logging.getLogger(__name__)

REFRESH_INTERVALS = 3
"""Push intervals between two reads: 15 s up to 1,000 nodes, 75 s at 5,000. So long at most is a peer probed that left,
and a node that joined not probed by its neighbours on the ring. A peer that falls silent has it read at once."""
MAX_REREAD_DELAY_SECONDS = 1.0
"""The longest random delay before the read that a silent peer causes: all that probe the node notice at once."""
_POLL_SECONDS = 0.5
"""While a new peer on the ring has not answered."""
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0
"""While etcd takes calls and does not answer in time, the waits grow whatever size the ring has shown: thousands may
have found it empty, and calls that nobody waits for any more keep etcd busy. A minute is enough for 10,000 agents. An
etcd that takes no connection is not kept busy: those waits do not grow."""
SPREAD_ANSWERS = 10
"""A call that each agent makes is spread over so many times what etcd took for the last read of the ring."""
REACH_RANK = 8
"""A node publishes its estimated RTT to the so many nearest candidate, or to the farthest when there are fewer."""
MAX_PUBLISHED_NEAR = 4
"""Nearest nodes that it names, for others in search of near peers."""


class PeeringSettings(Struct, frozen=True):
    """Intervals of a small cluster; they stretch as it grows.

    window_seconds: span of the statistics.
    probe_budget: probes a second that all agents together may send.
    """

    timing: ReportTiming
    probe_interval_seconds: float
    window_seconds: float
    probe_budget: float = PROBE_BUDGET


class PeerRefresher:
    """Reads the ring, selects peers and has them probed.

    ring_was_read: set after the first read; until then nobody knows how large the cluster is.
    assumed_nodes: the number of nodes that intervals are computed with.
    problem: why the ring cannot be read now.
    """

    def __init__(
        self,
        store: Store,
        own_name: str,
        k: int,
        settings: PeeringSettings,
        probing: Prober,
        report: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """report: called when a report is due at once. clock: monotonic seconds.

        pause: sleeps between two reads, and ends early when a peer falls silent.
        """
        self._rng = rng or Random()
        self.settings, self.own_coordinate = settings, OwnCoordinate(self._rng)
        self.selection = PeerSelection(own_name, k, lambda: self.own_coordinate.current, self._rng)
        self.ring_was_read, self.assumed_nodes = asyncio.Event(), MIN_NODES
        self.probe_interval_seconds = settings.probe_interval_seconds
        self.problem = ProblemLog(
            log,
            "agent cannot read the ring from etcd; it keeps its peers and tries again",
            "agent reads the ring from etcd again",
        )
        self._store, self._probing, self._report, self._clock = store, probing, report, clock
        self._pause, self._answered_seconds = pause, 0.0
        self._backoff = Backoff(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, self._rng)
        self._silent: frozenset[str] = frozenset()
        self._lost_peers = LostPeers()
        self._unreported: set[str] = set()

    async def run(self) -> None:
        """Refreshes the peers until it is cancelled. Survives StoreErrors; anything else is raised."""
        while True:
            try:
                await self.refresh()
            except StoreError as error:
                self.problem.report(error)
                spread, is_reached = self._rng.uniform(0, self.refresh_seconds()), not isinstance(error, Unreachable)
                await asyncio.sleep(max(spread, self._backoff.next_seconds()) if is_reached else spread)
            else:
                await self._rest(self.refresh_seconds() * self._rng.uniform(0.9, 1.1))

    async def refresh(self) -> None:
        """Reads the ring once and probes the peers that follow from it."""
        before = set(self.selection.ring_peers())
        query, began = self.selection.next_query(self._clock(), self._lost_peers.names), self._clock()
        own_arc, random_arc, found = await read_ring(self._store, query)
        self._answered_seconds = self._clock() - began
        self.selection.apply_result(query, own_arc, random_arc, found, self._clock())
        self._lost_peers.move(found)
        self.assumed_nodes = assumed_nodes(self.assumed_nodes, self.selection.ring_size.nodes)
        self.ring_was_read.set()
        self._backoff.reset()
        self._unreported |= set(self.selection.ring_peers()) - before
        self.apply_selection()
        self.problem.clear()

    def apply_selection(self) -> None:
        """Has the selected peers probed, and those that were lost lately, as often as the budget allows."""
        now = self._clock()
        selected = self.selection.peers(now)
        peers = [*selected, *self._lost_peers.update(selected, self._probing.silent_peers(), now)]
        base = self.settings.probe_interval_seconds
        interval = probe_interval_seconds(base, len(peers), self.assumed_nodes, self.settings.probe_budget)
        self.probe_interval_seconds = interval
        self.own_coordinate.on_peers_read({p.name: self.selection.candidates.coordinate_of(p.name) for p in peers})
        self._probing.set_timing(interval, window_seconds(self.settings.window_seconds, interval))
        self._probing.set_peers(peers)

    def report_new_peers(self) -> None:
        """Reports new peers on the ring as soon as all have answered, and not at the end of a long interval.

        So a node that joins is measured in both directions within seconds, at any size.
        """
        if not self._unreported:
            return
        self._unreported &= set(self.selection.ring_peers())
        if self._unreported and self._unreported <= set(self._probing.measured_peers()):
            self._unreported.clear()
            self._report()

    def timing(self) -> ReportTiming:
        """Returns push interval, staleness and lease for the assumed number of nodes."""
        return timing_for_nodes(self.settings.timing, self.assumed_nodes)

    async def spread(self) -> float:
        """Returns `spread_seconds` when the ring was read."""
        await self.ring_was_read.wait()
        return self.spread_seconds

    @property
    def spread_seconds(self) -> float:
        """Says over how long all agents together spread a call that each makes: 0.5 s at 100 nodes, 25 s at 5,000.

        An etcd that answers late has many before it, whatever the ring shows: it may be filling now.
        """
        return max(self.assumed_nodes / REPORTS_PER_SECOND, SPREAD_ANSWERS * self._answered_seconds)

    @property
    def stretch(self) -> float:
        """Says how much rarer agents ask etcd than in a small cluster."""
        return self.timing().push_interval_seconds / self.settings.timing.push_interval_seconds

    def ring_entry(self, address: str) -> RingEntry:
        """Makes this node's entry on the ring."""
        here = self.own_coordinate.current
        nearest = self.selection.candidates.by_distance(here)[:REACH_RANK]
        # Rounded to microseconds, which is finer than the coordinate's error.
        coordinate = RingCoordinate(
            tuple(round(number, 3) for number in here.point),
            *(round(number, 3) for number in (here.height, here.adjustment, here.error)),
        )
        reach_ms = round(min(nearest[-1][0], vivaldi.MAX_RTT_MS), 3) if nearest else None
        near = sorted(name for _, name in nearest[:MAX_PUBLISHED_NEAR])  # so that the same set is the same entry
        return RingEntry(address, coordinate, reach_ms, tuple(near))

    def refresh_seconds(self) -> float:
        """Returns the seconds to the next read: fewer while there is no peer, since at first most are still to come."""
        times = REFRESH_INTERVALS if self.selection.peers(self._clock()) else 1
        return max(times * self.timing().push_interval_seconds, self.spread_seconds)

    async def _rest(self, seconds: float) -> None:
        """Sleeps; a peer that stops answering ends the sleep early, and only once."""
        until = self._clock() + seconds
        while (remaining := until - self._clock()) > 0:
            await self._pause(min(_POLL_SECONDS, remaining) if self._unreported else remaining)
            self.report_new_peers()
            silent = frozenset(self._probing.silent_peers())
            if silent - self._silent:
                await asyncio.sleep(self._rng.uniform(0, MAX_REREAD_DELAY_SECONDS))
                until = self._clock()
            self._silent = silent
