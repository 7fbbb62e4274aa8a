"""Writes binds that failed to etcd, for the agent of the node. Only the extender that binds knows the node exactly.

The API server's answer says whether the node is to blame. Without an answer, the node is blamed only when the call
timed out. A pod that is deleted or already bound, a missing role and an unreachable API server blame no node.
"""

import asyncio
import logging
from random import Random

from leadsman.kube.errors import ApiError, Conflict, InvalidRequest, Unavailable
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import keys
from leadsman.state.records import BindFailure, encode_record
from leadsman.state.store import Put, Store, StoreError

log = logging.getLogger(__name__)

MAX_PENDING = 200
"""Further failures are dropped: where so many fail, a few more change no reward."""
RECORD_TTL_SECONDS = 300
"""The agent, which reads every 30 s, has counted the record by then."""
_PAUSE_SECONDS = 1.0


def blamed_cause(error: ApiError) -> IncidentCause | None:
    """The incident that a failed bind is for its node; None: the node is not to blame."""
    if isinstance(error, Unavailable):
        return IncidentCause.BIND_TIMEOUT if isinstance(error.__cause__, TimeoutError) or error.status == 504 else None
    refused = isinstance(error, InvalidRequest) or (
        isinstance(error, Conflict) and "already assigned" not in str(error)
    )
    return IncidentCause.BIND_REFUSED if refused else None


class BindFailureReporter:
    """Queues failed binds and writes them to etcd. `run` it as one task; call `report` on the same loop.

    dropped: failures that were not queued.
    failures: writes that etcd did not take.
    """

    def __init__(self, store: Store, rng: Random | None = None) -> None:
        self.dropped = self.failures = 0
        self._store, self._rng = store, rng or Random()
        self._pending: dict[str, BindFailure] = {}
        self._not_empty = asyncio.Event()
        self._problem = ProblemLog(
            log,
            "extender cannot write bind failures to etcd; it tries again",
            "extender writes bind failures to etcd again",
        )

    def report(self, node: str, uid: str, pod_type: str, error: ApiError) -> None:
        """Queues a failed bind. Never blocks, never raises: what cannot be written is dropped."""
        cause = blamed_cause(error)
        if cause is None:
            return
        try:
            key = keys.bind_failure_key(node, uid)
        except ValueError:
            self.dropped += 1
            return
        if len(self._pending) >= MAX_PENDING or not keys.is_pod_type(pod_type):
            self.dropped += 1
            return
        self._pending[key] = BindFailure(pod_type, cause.value)
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
            else:
                self._problem.clear()
            await asyncio.sleep(self._rng.uniform(_PAUSE_SECONDS, 2 * _PAUSE_SECONDS))

    async def write(self) -> None:
        """Writes all queued failures once. Those queued during the write stay queued. StoreError."""
        batch = dict(self._pending)
        if batch:
            lease = await self._store.grant(RECORD_TTL_SECONDS)
            await self._store.write([Put(key, encode_record(each)) for key, each in batch.items()], lease)
            for key in batch:
                del self._pending[key]
        if not self._pending:
            self._not_empty.clear()
