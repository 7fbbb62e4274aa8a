"""Writes probe requests to etcd: agents then measure node pairs that a decision lacked.

A decision only leaves pairs here and goes on: the pod is refused or the delay estimated now, and the next attempt finds
the pair measured. Writes are limited per second, and a pair is requested once in 30 s however often it is needed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import keys
from leadsman.state.records import ProbeRequest, encode_record
from leadsman.state.store import Put, Store, StoreError

log = logging.getLogger(__name__)

REQUESTS_PER_SECOND = 20
"""At 5 probes a request, 100 probes a second: a 200th of the agents' probe budget."""
MAX_PENDING = 200
"""10 s of writing. Further pairs are dropped: kube-scheduler tries the pod again."""
REQUEST_TTL_SECONDS = 30
"""A request lives this long, and its pair is not requested again before. The agent goes on measuring for 300 s."""
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 2.0, 10.0

ProbePair = tuple[str, str]
"""(the node that measures, the node it measures)."""


class ProbeRequestQueue:
    """Queues node pairs and writes them as probe requests. `run` it as one task; call `enqueue` on the same loop.

    clock: monotonic seconds.
    written: pairs in etcd.
    dropped: pairs that were invalid or found the queue full.
    failures: writes that etcd did not take.
    """

    def __init__(
        self,
        store: Store,
        per_second: int = REQUESTS_PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
    ) -> None:
        self.written = self.dropped = self.failures = 0
        self._store, self._per_second, self._clock = store, per_second, clock
        self._backoff = Backoff(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, rng or Random())
        self._pending: dict[ProbePair, None] = {}
        self._requested_at: dict[ProbePair, float] = {}
        self._not_empty = asyncio.Event()
        self._problem = ProblemLog(
            log,
            "extender cannot write probe requests to etcd; it tries again",
            "extender writes probe requests to etcd again",
        )

    def enqueue(self, pairs: Sequence[ProbePair]) -> None:
        """Queues pairs that are not requested already. Never blocks, never raises: the rest is dropped."""
        now = self._clock()
        for pair in pairs:
            if pair in self._pending or now - self._requested_at.get(pair, float("-inf")) < REQUEST_TTL_SECONDS:
                continue
            if len(self._pending) >= MAX_PENDING or not _is_valid(pair):
                self.dropped += 1
                continue
            self._pending[pair] = None
            self._not_empty.set()

    async def run(self) -> None:
        """Writes until cancelled. A StoreError is logged and retried, anything else is raised."""
        while True:
            await self._not_empty.wait()
            try:
                await self.write()
            except StoreError as error:
                self.failures += 1
                self._problem.report(error)
                await asyncio.sleep(self._backoff.next_seconds())
            else:
                self._backoff.reset()
                self._problem.clear()
                await asyncio.sleep(1.0)

    async def write(self) -> None:
        """Writes at most one second's share of the queue. Pairs whose write failed stay queued. StoreError."""
        batch = list(self._pending)[: self._per_second]
        if batch:
            lease = await self._store.grant(REQUEST_TTL_SECONDS)
            await self._store.write([_put(*pair) for pair in batch], lease)
            self._mark_written(batch)
        if not self._pending:
            self._not_empty.clear()

    def families(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "leadsman_probe_requests_sent", "Pairs whose probe request was written to etcd.", self.written
        )
        yield CounterMetricFamily(
            "leadsman_probe_requests_dropped",
            "Pairs that were not requested, because the queue was full or a name was invalid.",
            self.dropped,
        )

    def _mark_written(self, batch: Sequence[ProbePair]) -> None:
        now = self._clock()
        self.written += len(batch)
        self._requested_at = {pair: at for pair, at in self._requested_at.items() if now - at < REQUEST_TTL_SECONDS}
        for pair in batch:
            del self._pending[pair]
            self._requested_at[pair] = now


def _is_valid(pair: ProbePair) -> bool:
    one, other = pair
    return one != other and keys.is_node_name(one) and keys.is_node_name(other)


def _put(one: str, other: str) -> Put:
    return Put(keys.probe_request_key(one, other), encode_record(ProbeRequest(other)))
