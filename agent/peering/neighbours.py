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

from agent.peering import pace, reads
from agent.peering.coordinates import Coordinates
from agent.peering.neighbourhood import Neighbourhood
from agent.rtt.peer import Peer
from clusterstate.records import Coordinate, RingEntry
from clusterstate.store import Store, StoreError
from clusterstate.timing import Timing, for_nodes
from topology import vivaldi

log = logging.getLogger(__name__)

REFRESH_INTERVALS = 3
"""Of the push interval, as it is set and not as it stretches: 15 s. A peer that left is probed for so long at most, one
that joined is probed by its neighbours after so long, and one that died is not taken for another after so long."""
LOST_WITHIN_SECONDS = 1.0
"""Between noticing that a peer is silent and reading again: neighbours of one node notice together."""
_LOOK_SECONDS = 0.5


class Probing(Protocol):
    """What is needed of the prober."""

    def probe(self, peers: Iterable[Peer], interval_seconds: float, window_seconds: float) -> None:
        """These from now on, each once an interval."""

    def known(self) -> Collection[str]:
        """Peers with an outcome."""

    def silent(self) -> Collection[str]:
        """Peers that answer no longer."""


class Rhythm(Struct, frozen=True):
    """What is asked for at any size; it stretches with the cluster. budget: probes a second in the whole cluster."""

    timing: Timing
    probe_interval_seconds: float
    window_seconds: float
    budget: float = pace.PROBE_BUDGET


class Neighbours:
    """nodes: how many are reckoned with. refreshes, failures (by cause), last_error: for /metrics and the log."""

    def __init__(
        self,
        store: Store,
        own_name: str,
        k: int,
        rhythm: Rhythm,
        probing: Probing,
        report: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
    ) -> None:
        """report: soon, because there is something to say."""
        self._rng = rng or Random()
        self.rhythm, self.coordinates = rhythm, Coordinates(self._rng)
        self.neighbourhood = Neighbourhood(own_name, k, lambda: self.coordinates.own, self._rng)
        self.nodes = pace.LEAST_NODES
        self.probe_interval_seconds = rhythm.probe_interval_seconds
        self.refreshes, self.last_error = 0, ""
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
        before = set(self.neighbourhood.ring())
        wanted = self.neighbourhood.wanted(self._clock())
        found = await reads.read(self._store, wanted)
        self.neighbourhood.take(found, wanted, self._clock())
        self.nodes = pace.assumed(self.nodes, self.neighbourhood.census.nodes)
        self._unreported |= set(self.neighbourhood.ring()) - before
        self.refreshes += 1
        self.apply()
        if self.last_error:
            log.info("reading the ring again")
            self.last_error = ""

    def apply(self) -> None:
        """Probes whoever is to be probed now, as often as the budget allows."""
        peers = self.neighbourhood.peers(self._clock())
        base = self.rhythm.probe_interval_seconds
        interval = pace.probe_interval_seconds(base, len(peers), self.nodes, self.rhythm.budget)
        self.probe_interval_seconds = interval
        self.coordinates.renewed({peer.name for peer in peers})
        self._probing.probe(peers, interval, pace.window_seconds(self.rhythm.window_seconds, interval))

    def heard(self, name: str, rtt_ms: float) -> None:
        """A peer answered a probe."""
        self.coordinates.heard(name, rtt_ms, self.neighbourhood.candidates.where(name))

    def tell_news(self) -> None:
        """New neighbours on the ring are reported as soon as all have answered, and not at the end of a long
        interval: a node that joins is known, and knows, within seconds at any size."""
        self._unreported &= set(self.neighbourhood.ring())
        if self._unreported and self._unreported <= set(self._probing.known()):
            self._unreported.clear()
            self._report()

    def timing(self) -> Timing:
        """P, and with it S and L, for as many nodes as there seem to be."""
        return for_nodes(self.rhythm.timing, self.nodes)

    def entry(self, address: str, zone: str, rack: str) -> RingEntry:
        """What this node says of itself."""
        there = self.coordinates.own
        reach = self.neighbourhood.candidates.reach_ms(there)
        return RingEntry(
            address,
            zone,
            rack,
            _published(there),
            None if reach is None else round(min(reach, vivaldi.LONGEST_MS), 3),
            self.neighbourhood.published_near(),
        )

    def _interval(self) -> float:
        """Shorter while nobody is there: where all start at once, the first look comes too early."""
        times = REFRESH_INTERVALS if self.neighbourhood.peers(self._clock()) else 1
        return times * self.rhythm.timing.push_interval_seconds

    async def _rest(self, seconds: float) -> None:
        """Cut short by a peer that falls silent. One that stays so does not cut it short again."""
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            await asyncio.sleep(min(_LOOK_SECONDS, left))
            self.tell_news()
            silent = frozenset(self._probing.silent())
            if silent - self._noticed:
                await asyncio.sleep(self._rng.uniform(0, LOST_WITHIN_SECONDS))
                until = self._clock()
            self._noticed = silent

    def _failed(self, error: StoreError) -> None:
        self.failures[type(error).__name__] += 1
        if not self.last_error:
            log.warning("cannot read the ring, the peers stay: %s: %s", type(error).__name__, error)
        self.last_error = f"{type(error).__name__}: {error}"


def _published(own: vivaldi.Coordinate) -> Coordinate:
    """To microseconds, which is finer than any of it is known."""
    point = tuple(round(number, 3) for number in own.point)
    return Coordinate(point, round(own.height, 3), round(own.adjustment, 3), round(own.error, 3))
