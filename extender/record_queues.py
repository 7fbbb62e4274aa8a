"""Writes the extender's records to etcd: which node pairs agents should probe, and which binds failed.

A decision or a bind only leaves a record here and goes on. Records are written a few a second under a lease by which
they go again, and wait while etcd is away; what finds the queue full is dropped.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random

from prometheus_client import Metric

from leadsman.kube.errors import ApiError, InvalidRequest, Unavailable
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter
from leadsman.state import keys
from leadsman.state.records import AnyRecord, BindFailure, ProbeRequest, encode_record
from leadsman.state.store import Put, Store, StoreError

log = logging.getLogger(__name__)

REQUESTS_PER_SECOND = 20
"""Requests written a second: at 5 probes each they are 100 probes, a 200th of the agents' probe budget."""

MAX_PENDING = 200
"""A queue holds this many records: 10 s of writing. kube-scheduler tries a pod again whose pairs were dropped, and
where so many binds fail, a few more change no reward."""

REQUEST_TTL_SECONDS = 30
"""A request lives this long, and its pair is not requested again before. The agent goes on measuring for 300 s."""

BIND_FAILURE_TTL_SECONDS = 300
"""The agent, which reads every 30 s, has counted the record by then."""

FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 2.0, 10.0


class RecordQueue:
    """Queues records by key and writes them. `run` it as one task; call `put` on the same loop.

    what: the records, for the log. written: records in etcd. dropped: records that were invalid or found the queue
    full. failures: writes that etcd did not take.
    """

    def __init__(self, store: Store, what: str, ttl_seconds: int, per_second: int = REQUESTS_PER_SECOND) -> None:
        self.written = self.dropped = self.failures = 0
        self._store, self._ttl_seconds, self._per_second = store, ttl_seconds, per_second
        self._backoff = Backoff(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, Random())
        self._pending: dict[str, AnyRecord] = {}
        self._not_empty = asyncio.Event()
        self._problem = ProblemLog(
            log, f"extender cannot write {what} to etcd; it tries again", f"extender writes {what} to etcd again"
        )

    def put(self, key: str, record: AnyRecord) -> bool:
        """Queues a record; False: it was dropped. key: "" when it can have none, because a name is not valid."""
        if not key or (key not in self._pending and len(self._pending) >= MAX_PENDING):
            self.dropped += 1
            return False
        self._pending[key] = record
        self._not_empty.set()
        return True

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
        """Writes at most one second's share of the queue. Records whose write failed stay queued. Raises StoreError."""
        batch = dict(list(self._pending.items())[: self._per_second])
        if batch:
            lease = await self._store.grant(self._ttl_seconds)
            await self._store.write([Put(key, encode_record(record)) for key, record in batch.items()], lease)
            self.written += len(batch)
            for key in batch:
                del self._pending[key]
        if not self._pending:
            self._not_empty.clear()


class ProbeRequestQueue(RecordQueue):
    """Asks agents to measure node pairs that a decision lacked: the pod is refused or the delay estimated now, and the
    next attempt finds the pair measured. clock: monotonic seconds."""

    def __init__(
        self, store: Store, per_second: int = REQUESTS_PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(store, "probe requests", REQUEST_TTL_SECONDS, per_second)
        self._clock = clock
        self._requested_at: dict[str, float] = {}

    def enqueue(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Queues pairs (who measures, whom) that are not requested already. Never blocks, never raises."""
        now = self._clock()
        # A pair that waits for etcd may be written later than it was queued: agents then measure a little longer.
        self._requested_at = {key: at for key, at in self._requested_at.items() if now - at < REQUEST_TTL_SECONDS}
        for one, other in pairs:
            is_pair = one != other and keys.is_node_name(one) and keys.is_node_name(other)
            key = keys.probe_request_key(one, other) if is_pair else ""
            if key not in self._requested_at and self.put(key, ProbeRequest(other)):
                self._requested_at[key] = now

    def families(self) -> Iterator[Metric]:
        yield counter("leadsman_probe_requests_sent", "Pairs whose probe request was written to etcd.", self.written)
        dropped = "Pairs that were not requested, because the queue was full or a name was invalid."
        yield counter("leadsman_probe_requests_dropped", dropped, self.dropped)


class BindFailureQueue(RecordQueue):
    """Tells a node's agent which binds failed; only an extender that binds knows for certain which node it was."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "bind failures", BIND_FAILURE_TTL_SECONDS)

    def report(self, node: str, uid: str, pod_type: str, error: ApiError) -> None:
        """Queues a failed bind that the node is to blame for. Never blocks, never raises."""
        if cause := blamed_cause(error):
            try:
                key = keys.bind_failure_key(node, uid) if keys.is_pod_type(pod_type) else ""
            except ValueError:
                key = ""
            self.put(key, BindFailure(pod_type, cause.value))


def blamed_cause(error: ApiError) -> IncidentCause | None:
    """Returns the incident that a failed bind is for its node; None: the node is not to blame.

    The API server's answer says it. Without an answer, the node is blamed only when the call timed out. A pod that is
    deleted, gated or already bound (404, 409), a missing role and an unreachable API server blame no node.
    """
    if isinstance(error, Unavailable):
        return IncidentCause.BIND_TIMEOUT if isinstance(error.__cause__, TimeoutError) or error.status == 504 else None
    return IncidentCause.BIND_REFUSED if isinstance(error, InvalidRequest) else None
