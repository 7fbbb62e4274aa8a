"""Reports: the latest measurements → records → one transaction under the agent's lease.

The lease is renewed only after a completed measure and put: nothing keeps frozen data alive in the background.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random

from agent.deadband import worth_writing
from agent.liveness import LoopLiveness
from agent.node_ownership import NodeAlreadyOwned, NodeOwnership, claim_node
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import codec, keys
from leadsman.state.key_values import Delete, Put
from leadsman.state.records import AnyRecord, Heartbeat, Identity, RingEntry
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import LeaseLost, OutOfSpace, PreconditionFailed, Store, StoreError

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 5.0
"""Back within 8 s once the store heals: this wait, then a claim and a report."""
OUT_OF_SPACE_BACKOFF_SECONDS = 30.0
"""Only an operator can make room; until then a cluster of retries would be a storm."""

NodeRecords = Mapping[type[AnyRecord], AnyRecord | None]
"""What to say now. None: nothing is known, and what was said before must go."""


class Reporter:
    """Claims the node, then reports every P ± 10 %, until another owner holds the node: then Taken.

    timing: asked before each report, because P stretches with the cluster. report_count and failures are for /metrics;
    problem: why the last report failed.
    """

    def __init__(
        self,
        store: Store,
        node: str,
        wanted: Identity,
        timing: Callable[[], ReportTiming],
        records: Callable[[], NodeRecords],
        progress: LoopLiveness,
        rng: Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pause: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        """pause: between two reports; it may end early when there is something to say. None: as `sleep`."""
        self._store, self._node, self._wanted = store, node, wanted
        self._timing, self._records, self._progress = timing, records, progress
        self._rng, self._sleep, self._pause = rng, sleep, pause or sleep
        self._backoff = Backoff(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, rng)
        self._out_of_space_backoff = Backoff(FIRST_BACKOFF_SECONDS, OUT_OF_SPACE_BACKOFF_SECONDS, rng)
        self._said: dict[type[AnyRecord], AnyRecord | None] = {}
        self._seq = 0
        self.ownership: NodeOwnership | None = None
        self.report_count = 0
        self.failures: Counter[str] = Counter()
        self.problem = ProblemLog(
            log, f"agent of node {node} does not report to etcd", f"agent of node {node} reports to etcd again"
        )

    async def run(self) -> None:
        """Never returns. Taken: stop this process, another one writes this node."""
        await self._sleep(self._rng.uniform(0, self._timing().push_interval_seconds))
        while True:
            try:
                await self.report()
            except StoreError as error:
                self._failed(error)
                backoff = self._out_of_space_backoff if isinstance(error, OutOfSpace) else self._backoff
                await self._sleep(backoff.next_seconds())
            else:
                self._backoff.reset()
                self._out_of_space_backoff.reset()
                await self._pause(self._timing().push_interval_seconds * self._rng.uniform(0.9, 1.1))

    async def report(self) -> None:
        """One report, unless a loop has stalled: then nothing is renewed and the node goes stale, as it should."""
        if stalled := self._progress.stalled():
            self.problem.report(f"{', '.join(stalled)} made no progress; kubelet restarts the agent by /healthz")
            return
        timing = self._timing()
        try:
            held = self.ownership = await self._claimed(timing)
            await self._write(held, timing)
            await self._store.keep_alive(held.lease)
        except (LeaseLost, PreconditionFailed):
            self.ownership = None
            raise
        self.report_count += 1
        self.problem.clear()

    async def close(self) -> None:
        """Ends the lease, so that the node's records go at once. StoreError when the store cannot be reached."""
        if self.ownership is not None:
            await self._store.revoke(self.ownership.lease)
            self.ownership = None

    async def _claimed(self, timing: ReportTiming) -> NodeOwnership:
        if self.ownership is not None and self.ownership.lease_seconds == timing.lease_seconds:
            return self.ownership
        self._said.clear()
        return await self._waited_for_claim(timing)

    async def _waited_for_claim(self, timing: ReportTiming) -> NodeOwnership:
        """An agent that was killed holds the node until its lease ends: wait that long for it, and not longer."""
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
        return await claim_node(self._store, self._node, self._wanted, timing.lease_seconds, entry)

    async def _write(self, held: NodeOwnership, timing: ReportTiming) -> None:
        """While a write is under way, and after it failed, nobody knows what the store has: all is said again."""
        now = {kind: record for kind, record in self._records().items() if record is not None}
        changed = [record for kind, record in now.items() if worth_writing(self._said.get(kind), record)]
        gone = [Delete(keys.record_key(self._node, kind)) for kind in self._said.keys() - now.keys()]
        after = {kind: self._said.get(kind) for kind in now} | {type(record): record for record in changed}
        self._said = dict.fromkeys(self._said | now)
        self._seq += 1
        beat = Heartbeat(held.identity.epoch, self._seq, timing.push_interval_seconds)
        puts = [Put(keys.record_key(self._node, type(record)), codec.encode(record)) for record in (*changed, beat)]
        await self._store.write([*gone, *puts], held.lease, held.guard)
        self._said = after

    def _failed(self, error: StoreError) -> None:
        self.failures[type(error).__name__] += 1
        self.problem.report(error)
