"""Pairs to measure now: the extender asks for one when a decision turns on it and nobody has measured it.

The agent watches its own prefix alone. It probes the target a few times at once, reports at once, and goes on probing
it for a while, so that the pair is measured when the pod is tried again.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import aclosing
from random import Random
from typing import Protocol

from agent.peering import ring_reads
from agent.peering.peer_refresh import PeerRefresher
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import codec, keys
from leadsman.state.codec import BadRecord
from leadsman.state.key_values import StoredItem, Updated
from leadsman.state.records import ProbeRequest
from leadsman.state.store import Store, StoreError

log = logging.getLogger(__name__)

BURST_PROBES = 5
"""Of a burst: with two of them lost there is still a median."""
BURST_INTERVAL_SECONDS = 0.05
ANSWER_TIMEOUT_SECONDS = 1.2
MAX_BACKOFF_SECONDS = 5.0
_FIRST_BACKOFF_SECONDS = 0.2


class OnDemandProber(Protocol):
    """What is needed of the prober."""

    def probe_now(self, name: str) -> None: ...

    def measured_peers(self) -> Collection[str]:
        """Peers with an outcome."""


class ProbeRequestHandler:
    """report: soon. served: requests by what became of them, for /metrics."""

    def __init__(
        self,
        store: Store,
        neighbours: PeerRefresher,
        probing: OnDemandProber,
        report: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
    ) -> None:
        self.result_counts: Counter[str] = Counter()
        self._store, self._neighbours = store, neighbours
        self._probing, self._report = probing, report
        self._clock = clock
        self._backoff = Backoff(_FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, rng or Random())
        self._prefix = keys.probes_prefix(neighbours.selection.own_name)
        self._problem = ProblemLog(
            log,
            "agent cannot watch probe requests in etcd; it tries again",
            "agent watches probe requests in etcd again",
        )

    async def run(self) -> None:
        """For ever. StoreErrors are survived, anything else is raised."""
        while True:
            began = self._clock()
            try:
                await self._follow()
            except StoreError as error:
                self._problem.report(error)
            if self._clock() - began > MAX_BACKOFF_SECONDS:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next_seconds())

    async def serve(self, targets: Iterable[str]) -> None:
        """Probes them a few times, then has it reported, answered or not."""
        accepted = [target for target in dict.fromkeys(targets) if await self._accept(target)]
        if not accepted:
            return
        self._neighbours.apply_selection()
        for _ in range(BURST_PROBES):
            for target in accepted:
                self._probing.probe_now(target)
            await asyncio.sleep(BURST_INTERVAL_SECONDS)
        await self._answered(accepted)
        self._report()

    async def _follow(self) -> None:
        """A request of before a lost line is served too, as long as its lease has not ended."""
        listing = await self._store.read_prefix(self._prefix)
        await self.serve(_targets(listing.items))
        async with aclosing(self._store.watch(self._prefix, listing.revision + 1, listing.cluster_id)) as batches:
            async for batch in batches:
                self._problem.clear()
                await self.serve(_targets(change for change in batch.changes if isinstance(change, Updated)))

    async def _accept(self, target: str) -> bool:
        result = await self._added(target)
        self.result_counts[result] += 1
        return result == "accepted"

    async def _added(self, target: str) -> str:
        if target == self._neighbours.selection.own_name:
            return "self"
        found = await ring_reads.read_entry(self._store, target)
        if found is None:
            return "unknown"
        return "accepted" if self._neighbours.selection.add_requested(found, self._clock()) else "full"

    async def _answered(self, targets: Collection[str]) -> None:
        for _ in range(round(ANSWER_TIMEOUT_SECONDS / BURST_INTERVAL_SECONDS)):
            if set(targets) <= set(self._probing.measured_peers()):
                return
            await asyncio.sleep(BURST_INTERVAL_SECONDS)


def _targets(items: Iterable[StoredItem | Updated]) -> list[str]:
    """The nodes named. A request that cannot be read is none."""
    found = (_target(item.value) for item in items)
    return [target for target in found if target is not None]


def _target(value: bytes) -> str | None:
    try:
        return keys.check_node_name(codec.decode(ProbeRequest, value).target)
    except (BadRecord, ValueError):
        return None
