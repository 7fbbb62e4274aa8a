"""Keeps the neighbourhood current: reads every so often, and soon when a peer has fallen silent.

A read that fails changes nothing: an agent never probes nobody because the store is away.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Protocol

from msgspec import Struct

from agent.peering import probe_rate, ring_reads
from agent.peering.own_coordinate import OwnCoordinate
from agent.peering.peer_selection import PeerSelection
from agent.rtt.peer import Peer
from leadsman.network import vivaldi
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state.records import RingCoordinate, RingEntry
from leadsman.state.report_timing import ReportTiming, timing_for_nodes
from leadsman.state.store import Store, StoreError

log = logging.getLogger(__name__)

REFRESH_INTERVALS = 3
"""Of the push interval, as it is set and not as it stretches: 15 s. A peer that left is probed for so long at most, one
that joined is probed by its neighbours after so long, and one that died is not taken for another after so long."""
MAX_REREAD_DELAY_SECONDS = 1.0
"""Between noticing that a peer is silent and reading again: neighbours of one node notice together."""
_POLL_SECONDS = 0.5


class PeerProber(Protocol):
    """What is needed of the prober."""

    def probe_peers(self, peers: Iterable[Peer], interval_seconds: float, window_seconds: float) -> None:
        """These from now on, each once an interval."""

    def measured_peers(self) -> Collection[str]:
        """Peers with an outcome."""

    def silent_peers(self) -> Collection[str]:
        """Peers that answer no longer."""


class PeeringSettings(Struct, frozen=True):
    """What is asked for at any size; it stretches with the cluster. budget: probes a second in the whole cluster."""

    timing: ReportTiming
    probe_interval_seconds: float
    window_seconds: float
    probe_budget: float = probe_rate.PROBE_BUDGET


class PeerRefresher:
    """nodes: how many are reckoned with. refreshes, failures (by cause): for /metrics. problem: why the ring cannot
    be read now."""

    def __init__(
        self,
        store: Store,
        own_name: str,
        k: int,
        rhythm: PeeringSettings,
        probing: PeerProber,
        report: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
    ) -> None:
        """report: soon, because there is something to say."""
        self._rng = rng or Random()
        self.settings, self.own_coordinate = rhythm, OwnCoordinate(self._rng)
        self.selection = PeerSelection(own_name, k, lambda: self.own_coordinate.current, self._rng)
        self.assumed_nodes = probe_rate.MIN_NODES
        self.probe_interval_seconds = rhythm.probe_interval_seconds
        self.refreshes = 0
        self.problem = ProblemLog(
            log,
            "agent cannot read the ring from etcd; it keeps its peers and tries again",
            "agent reads the ring from etcd again",
        )
        self.failures: Counter[str] = Counter()
        self._store, self._probing, self._report, self._clock = store, probing, report, clock
        self._noticed: frozenset[str] = frozenset()
        self._unreported: set[str] = set()

    async def run(self) -> None:
        """For ever. StoreErrors are survived, anything else is raised."""
        while True:
            try:
                await self.refresh()
            except StoreError as error:
                self._failed(error)
                await asyncio.sleep(self._rng.uniform(0, self._interval()))
            else:
                await self._rest(self._interval() * self._rng.uniform(0.9, 1.1))

    async def refresh(self) -> None:
        """Reads once, and probes by what it found."""
        before = set(self.selection.ring_peers())
        wanted = self.selection.next_query(self._clock())
        found = await ring_reads.read_ring(self._store, wanted)
        self.selection.apply_result(found, wanted, self._clock())
        self.assumed_nodes = probe_rate.assumed_nodes(self.assumed_nodes, self.selection.ring_size.nodes)
        self._unreported |= set(self.selection.ring_peers()) - before
        self.refreshes += 1
        self.apply_selection()
        self.problem.clear()

    def apply_selection(self) -> None:
        """Probes whoever is to be probed now, as often as the budget allows."""
        peers = self.selection.peers(self._clock())
        base = self.settings.probe_interval_seconds
        interval = probe_rate.probe_interval_seconds(base, len(peers), self.assumed_nodes, self.settings.probe_budget)
        self.probe_interval_seconds = interval
        self.own_coordinate.on_peers_read({peer.name for peer in peers})
        self._probing.probe_peers(peers, interval, probe_rate.window_seconds(self.settings.window_seconds, interval))

    def on_rtt(self, name: str, rtt_ms: float) -> None:
        """A peer answered a probe."""
        self.own_coordinate.update(name, rtt_ms, self.selection.candidates.coordinate_of(name))

    def report_new_peers(self) -> None:
        """New neighbours on the ring are reported as soon as all have answered, and not at the end of a long
        interval: a node that joins is known, and knows, within seconds at any size."""
        self._unreported &= set(self.selection.ring_peers())
        if self._unreported and self._unreported <= set(self._probing.measured_peers()):
            self._unreported.clear()
            self._report()

    def timing(self) -> ReportTiming:
        """P, and with it S and L, for as many nodes as there seem to be."""
        return timing_for_nodes(self.settings.timing, self.assumed_nodes)

    def ring_entry(self, address: str, zone: str, rack: str) -> RingEntry:
        """What this node says of itself."""
        there = self.own_coordinate.current
        reach = self.selection.candidates.reach_ms(there)
        return RingEntry(
            address,
            zone,
            rack,
            _rounded_coordinate(there),
            None if reach is None else round(min(reach, vivaldi.MAX_RTT_MS), 3),
            self.selection.published_near(),
        )

    def _interval(self) -> float:
        """Shorter while nobody is there: where all start at once, the first look comes too early."""
        times = REFRESH_INTERVALS if self.selection.peers(self._clock()) else 1
        return times * self.settings.timing.push_interval_seconds

    async def _rest(self, seconds: float) -> None:
        """Cut short by a peer that falls silent. One that stays so does not cut it short again."""
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            await asyncio.sleep(min(_POLL_SECONDS, left))
            self.report_new_peers()
            silent = frozenset(self._probing.silent_peers())
            if silent - self._noticed:
                await asyncio.sleep(self._rng.uniform(0, MAX_REREAD_DELAY_SECONDS))
                until = self._clock()
            self._noticed = silent

    def _failed(self, error: StoreError) -> None:
        self.failures[type(error).__name__] += 1
        self.problem.report(error)


def _rounded_coordinate(own: vivaldi.Coordinate) -> RingCoordinate:
    """To microseconds, which is finer than any of it is known."""
    point = tuple(round(number, 3) for number in own.point)
    return RingCoordinate(point, round(own.height, 3), round(own.adjustment, 3), round(own.error, 3))
