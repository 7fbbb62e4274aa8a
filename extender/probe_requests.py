"""Asks agents to measure pairs that a decision turned on and nobody has measured.

A decision only drops pairs here and goes on; the pod is refused or estimated now, and the next attempt finds the pair
measured. What is written is capped a second, and a pair is asked for once in a while however often it is wanted.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from leadsman.state import codec, keys
from leadsman.state.records import ProbeRequest
from leadsman.state.store import Put, Store, StoreError

log = logging.getLogger(__name__)

REQUESTS_PER_SECOND = 20
"""At 5 probes a request, 100 probes a second: a 200th of the agents' probe budget."""
MAX_PENDING = 200
"""10 s of work. A pair that comes when these wait is dropped: the pod will be back."""
REQUEST_TTL_SECONDS = 30
"""A pair is asked for once in so long, and a request lives so long. The agent goes on measuring for 300 s."""
MAX_BACKOFF_SECONDS = 10.0

ProbePair = tuple[str, str]
"""Who is to measure, and whom."""


class ProbeRequestQueue:
    """`run` it as one task; call `ask` on the same loop. clock: monotonic seconds.

    written, dropped, failures: for /metrics.
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
        self._rng = rng or Random()
        self._waiting: dict[ProbePair, None] = {}
        self._requested_at: dict[ProbePair, float] = {}
        self._some = asyncio.Event()

    def enqueue(self, pairs: Sequence[ProbePair]) -> None:
        """Never blocks, never raises: a pair that cannot be asked for is dropped."""
        now = self._clock()
        for pair in pairs:
            if pair in self._waiting or now - self._requested_at.get(pair, float("-inf")) < REQUEST_TTL_SECONDS:
                continue
            if len(self._waiting) >= MAX_PENDING or not _is_valid(pair):
                self.dropped += 1
                continue
            self._waiting[pair] = None
            self._some.set()

    async def run(self) -> None:
        """For ever. StoreErrors are survived, anything else is raised."""
        failures = 0
        while True:
            await self._some.wait()
            try:
                await self.write()
            except StoreError as error:
                self.failures, failures = self.failures + 1, failures + 1
                log.log(logging.WARNING if failures == 1 else logging.DEBUG, "cannot ask for probes: %s", error)
                await asyncio.sleep(self._rng.uniform(0, min(MAX_BACKOFF_SECONDS, 2.0**failures)))
            else:
                failures = 0
                await asyncio.sleep(1.0)

    async def write(self) -> None:
        """What may be written in a second. A pair whose write failed waits on."""
        batch = list(self._waiting)[: self._per_second]
        if batch:
            lease = await self._store.grant(REQUEST_TTL_SECONDS)
            await self._store.write([_put(*pair) for pair in batch], lease)
            self._done(batch)
        if not self._waiting:
            self._some.clear()

    def families(self) -> Iterator[Metric]:
        yield CounterMetricFamily("leadsman_probe_requests", "Pairs that agents were asked to measure.", self.written)
        yield CounterMetricFamily(
            "leadsman_probe_requests_dropped", "Pairs not asked for, because too many waited.", self.dropped
        )

    def _done(self, batch: Sequence[ProbePair]) -> None:
        now = self._clock()
        self.written += len(batch)
        self._requested_at = {pair: at for pair, at in self._requested_at.items() if now - at < REQUEST_TTL_SECONDS}
        for pair in batch:
            del self._waiting[pair]
            self._requested_at[pair] = now


def _is_valid(pair: ProbePair) -> bool:
    one, other = pair
    return one != other and keys.is_node_name(one) and keys.is_node_name(other)


def _put(one: str, other: str) -> Put:
    return Put(keys.probe_request_key(one, other), codec.encode(ProbeRequest(other)))
