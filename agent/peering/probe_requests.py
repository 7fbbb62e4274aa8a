"""Serves probe requests: the extender asks for a pair when a decision turns on it and nobody has measured it.

The agent watches its own prefix alone. It probes the target a few times at once, reports at once, and goes on probing
it for a while, so that the pair is measured when the pod is tried again.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import aclosing, suppress
from random import Random

from prometheus_client import Metric

from agent.capped_list import CappedList
from agent.peering import peer_refresh
from agent.peering.peer_refresh import PeerRefresher
from agent.rtt.prober import Prober
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter
from leadsman.state import keys
from leadsman.state.records import BadRecord, ProbeRequest, decode_record
from leadsman.state.store import Compacted, Store, StoredItem, StoreError, Unreachable, Updated

log = logging.getLogger(__name__)

BURST_PROBES = 5
"""Probes of a burst: with two of them lost there is still a median."""
BURST_INTERVAL_SECONDS = 0.05
ANSWER_MARGIN_SECONDS = 0.2
"""An answer may come this long after the timeout of a probe: the prober's turn that ends it takes time."""
MAX_BACKOFF_SECONDS, MAX_UNREACHABLE_SECONDS = peer_refresh.MAX_BACKOFF_SECONDS, 5.0
"""Waits while etcd does not answer in time, and while it takes no connection."""
MAX_LISTED = 64
"""Requests that stand when the agent begins to watch."""
MAX_SERVED = 64
"""Targets of one batch, each of which costs a read of etcd; more than the agent probes at once by far."""
_FIRST_BACKOFF_SECONDS = 0.2


class ProbeRequestHandler:
    """Watches and serves this node's requests.

    result_counts: requests by result, since the start, for metrics.
    """

    def __init__(
        self,
        store: Store,
        peer_refresher: PeerRefresher,
        probing: Prober,
        report: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
        timeout_seconds: float = 1.0,
    ) -> None:
        """report: called when a report is due at once. clock: monotonic seconds. timeout_seconds: of a probe."""
        self.result_counts: Counter[str] = Counter()
        self._store, self._peer_refresher = store, peer_refresher
        self._probing, self._report = probing, report
        self._clock, self._answer_seconds = clock, timeout_seconds + ANSWER_MARGIN_SECONDS
        self._rng = rng or Random()
        self._backoff = Backoff(_FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, self._rng)
        self._prefix = keys.probes_prefix(peer_refresher.selection.own_name)
        self._list = CappedList(store, self._prefix, MAX_LISTED)
        self._problem = ProblemLog(
            log,
            "agent cannot watch probe requests in etcd; it tries again",
            "agent watches probe requests in etcd again",
        )

    async def run(self) -> None:
        """Serves until cancelled. Survives StoreErrors; anything else is raised.

        It begins when the ring was read: until then the node is not on it, and nobody can ask for its pairs.
        """
        await self._peer_refresher.ring_was_read.wait()
        while True:
            await asyncio.sleep(self._rng.uniform(0, self._peer_refresher.spread_seconds))
            began, longest = self._clock(), MAX_BACKOFF_SECONDS
            try:
                await self._follow()
            except Compacted:
                pass  # etcd drops its history within 2 minutes; the next listing has what stands, and only that counts.
            except StoreError as error:
                self._problem.report(error)
                longest = MAX_UNREACHABLE_SECONDS if isinstance(error, Unreachable) else longest
            if self._clock() - began > MAX_BACKOFF_SECONDS:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next_seconds(longest))

    async def serve(self, targets: Iterable[str]) -> None:
        """Probes the targets a few times, then has the result reported, answered or not."""
        distinct = list(dict.fromkeys(targets))
        if ignored := distinct[MAX_SERVED:]:
            self.result_counts["ignored"] += len(ignored)
        accepted = [target for target in distinct[:MAX_SERVED] if await self._accept(target)]
        if not accepted:
            return
        self._peer_refresher.apply_selection()
        for _ in range(BURST_PROBES):
            for target in accepted:
                self._probing.probe_now(target)
            await asyncio.sleep(BURST_INTERVAL_SECONDS)
        await self._until_measured(accepted)
        self._report()

    async def _follow(self) -> None:
        """Serves requests that stand already, as long as their leases last, and then new ones."""
        listing = await self._list.read()
        await self.serve(_targets(listing.items))
        async with aclosing(self._store.watch(self._prefix, listing.revision + 1, listing.cluster_id)) as batches:
            async for batch in batches:
                self._problem.clear()
                await self.serve(_targets(change for change in batch.changes if isinstance(change, Updated)))

    async def _accept(self, target: str) -> bool:
        """Makes the target a peer for a while, and counts what became of the request."""
        selection, result = self._peer_refresher.selection, "self"
        if target != selection.own_name:
            member = await peer_refresh.read_entry(self._store, target)
            result = "unknown" if member is None else "full"
            if member is not None and selection.add_requested(member, self._clock()):
                result = "accepted"
        self.result_counts[result] += 1
        return result == "accepted"

    async def _until_measured(self, targets: Collection[str]) -> None:
        for _ in range(round(self._answer_seconds / BURST_INTERVAL_SECONDS)):
            if set(targets) <= set(self._probing.measured_peers()):
                return
            await asyncio.sleep(BURST_INTERVAL_SECONDS)


def _targets(items: Iterable[StoredItem | Updated]) -> list[str]:
    """Returns the nodes that the requests name. A request that cannot be decoded is ignored."""
    targets = []
    for item in items:
        with suppress(BadRecord, ValueError):
            targets.append(keys.check_node_name(decode_record(ProbeRequest, item.value).target))
    return targets


def peering_metrics(requests: ProbeRequestHandler) -> Iterator[Metric]:
    yield counter("leadsman_probe_requests", "Requests to probe a pair, by result.", requests.result_counts, "result")
