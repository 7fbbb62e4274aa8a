"""Writes the latest measurements to etcd: records in one transaction under the agent's lease.

The lease is renewed only after a completed round and write: nothing keeps frozen data alive in the background.
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
from leadsman.state import keys
from leadsman.state.records import AnyRecord, Heartbeat, Identity, RingEntry, encode_record
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import Delete, LeaseLost, OutOfSpace, PreconditionFailed, Put, Store, StoreError, Unavailable

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 5.0
"""The agent reports within 8 s once the store answers again: this wait, then a claim and a report."""
NodeRecords = Mapping[type[AnyRecord], AnyRecord | None]
"""What to write now. None: nothing is known, and the record written before must be deleted."""


class Reporter:
    """Claims the node and reports every push interval ± 10 %, until another agent owns the node: NodeAlreadyOwned.

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
    ) -> None:
        """timing: asked before each report, because the push interval stretches with the cluster.

        pause: sleeps between two reports, and may end early when a report is due at once. None: as `sleep`.
        """
        self._store, self._node, self._identity = store, node, identity
        self._timing, self._records, self._liveness = timing, records, liveness
        self._rng, self._sleep, self._pause = rng, sleep, pause or sleep
        self._backoff = Backoff(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, rng)
        self._reported: dict[type[AnyRecord], AnyRecord | None] = {}
        self._seq = 0
        self.ownership: NodeOwnership | None = None
        self.report_count = 0
        self.failures: Counter[str] = Counter()
        self.problem = ProblemLog(
            log, f"agent of node {node} does not report to etcd", f"agent of node {node} reports to etcd again"
        )

    async def run(self) -> None:
        """Never returns. NodeAlreadyOwned: another agent writes this node; end this process."""
        await self._sleep(self._rng.uniform(0, self._timing().push_interval_seconds))
        while True:
            try:
                await self.report()
            except StoreError as error:
                self._failed(error)
                await self._sleep(self._seconds_to_retry(error))
            else:
                self._backoff.reset()
                await self._pause(self._interval_seconds())

    def _interval_seconds(self) -> float:
        return self._timing().push_interval_seconds * self._rng.uniform(0.9, 1.1)

    def _seconds_to_retry(self, error: StoreError) -> float:
        """While etcd is full, until an operator makes room, retries come at the rate of reports: no storm."""
        return self._interval_seconds() if isinstance(error, OutOfSpace) else self._backoff.next_seconds()

    async def report(self) -> None:
        """Reports once. While a loop is stalled it renews nothing, so that the node goes stale, as it should."""
        if stalled := self._liveness.stalled():
            self.problem.report(f"{', '.join(stalled)} made no progress; kubelet restarts the agent by /healthz")
            return
        timing = self._timing()
        try:
            ownership = self.ownership = await self._claimed(timing)
            await self._write(ownership, timing)
            await self._store.keep_alive(ownership.lease)
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
        """Revokes the lease, which deletes the node's records. StoreError when the store cannot be reached."""
        if self.ownership is not None:
            await self._store.revoke(self.ownership.lease)
            self.ownership = None

    async def _claimed(self, timing: ReportTiming) -> NodeOwnership:
        if self.ownership is not None and self.ownership.lease_seconds == timing.lease_seconds:
            return self.ownership
        self._reported = dict.fromkeys(self._reported)
        return await self._waited_for_claim(timing)

    async def _waited_for_claim(self, timing: ReportTiming) -> NodeOwnership:
        """Waits until the lease of an agent that was killed expires, and no longer.

        A lease that lives on then, without a heartbeat in all that time, is renewed by somebody else.
        """
        first: NodeAlreadyOwned | None = None
        for _ in range(timing.lease_seconds + 2):
            try:
                return await self._claim(timing)
            except NodeAlreadyOwned as error:
                first = first or error
                self.problem.report(error)
                await self._sleep(1.0)
        return await self._claim(timing, first)

    async def _claim(self, timing: ReportTiming, refused_before: NodeAlreadyOwned | None = None) -> NodeOwnership:
        entry = self._records().get(RingEntry)
        assert entry is None or isinstance(entry, RingEntry)
        return await claim_node(
            *(self._store, self._node, self._identity, timing.lease_seconds, entry), refused_before=refused_before
        )

    async def _write(self, ownership: NodeOwnership, timing: ReportTiming) -> None:
        """Writes what changed. After a write that failed nobody knows what the store has, so all is written again."""
        now = {kind: record for kind, record in self._records().items() if record is not None}
        changed = [record for kind, record in now.items() if worth_writing(self._reported.get(kind), record)]
        gone = [Delete(keys.record_key(self._node, kind)) for kind in self._reported.keys() - now.keys()]
        after = {kind: self._reported.get(kind) for kind in now} | {type(record): record for record in changed}
        self._reported = dict.fromkeys(self._reported | now)
        self._seq += 1
        beat = Heartbeat(ownership.identity.epoch, self._seq, timing.push_interval_seconds)
        puts = [Put(keys.record_key(self._node, type(record)), encode_record(record)) for record in (*changed, beat)]
        try:
            await self._store.write([*gone, *puts], ownership.lease, ownership.guard)
        except Unavailable:
            self.fence()
            raise
        self._reported = after

    def _failed(self, error: StoreError) -> None:
        self.failures[type(error).__name__] += 1
        self.problem.report(error)
