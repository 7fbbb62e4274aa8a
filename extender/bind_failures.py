"""Binds that failed, told to the agent of the node: here alone the node is known exactly.

Whether a bind blames the node is said by the API server's answer. One that it never gave blames the node only when the
call took too long; a pod that is gone or bound already, a missing role or an API server that is away blame nobody.
"""

import asyncio
import logging
from random import Random

from leadsman.kube.errors import ApiError, Conflict, InvalidRequest, Unavailable
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.state import codec, keys
from leadsman.state.records import BindFailure
from leadsman.state.store import Put, Store, StoreError

log = logging.getLogger(__name__)

MAX_PENDING = 200
"""More are dropped: where so many fail, a few more change no reward."""
RECORD_TTL_SECONDS = 300
"""In which the agent, which looks every 30 s, has counted it."""
_PAUSE_SECONDS = 1.0


def blamed_cause(error: ApiError) -> IncidentCause | None:
    """None: the node is not to blame."""
    if isinstance(error, Unavailable):
        return IncidentCause.BIND_TIMEOUT if isinstance(error.__cause__, TimeoutError) or error.status == 504 else None
    refused = isinstance(error, InvalidRequest) or (
        isinstance(error, Conflict) and "already assigned" not in str(error)
    )
    return IncidentCause.BIND_REFUSED if refused else None


class BindFailureReporter:
    """`run` it as one task; call `note` on the same loop. dropped, failures: for the log and tests."""

    def __init__(self, store: Store, rng: Random | None = None) -> None:
        self.dropped = self.failures = 0
        self._store, self._rng = store, rng or Random()
        self._waiting: dict[str, BindFailure] = {}
        self._some = asyncio.Event()

    def report(self, node: str, uid: str, pod_type: str, error: ApiError) -> None:
        """Never blocks, never raises: what cannot be told is dropped."""
        cause = blamed_cause(error)
        if cause is None:
            return
        try:
            key = keys.bind_failure_key(node, uid)
        except ValueError:
            self.dropped += 1
            return
        if len(self._waiting) >= MAX_PENDING or not keys.is_pod_type(pod_type):
            self.dropped += 1
            return
        self._waiting[key] = BindFailure(pod_type, cause.value)
        self._some.set()

    async def run(self) -> None:
        """For ever. StoreErrors are survived, anything else is raised."""
        while True:
            await self._some.wait()
            try:
                await self.write()
            except StoreError as error:
                self.failures += 1
                log.log(logging.WARNING if self.failures == 1 else logging.DEBUG, "cannot tell of binds: %s", error)
            await asyncio.sleep(self._rng.uniform(_PAUSE_SECONDS, 2 * _PAUSE_SECONDS))

    async def write(self) -> None:
        """All that wait. Of those that came meanwhile, none is lost."""
        batch = dict(self._waiting)
        if batch:
            lease = await self._store.grant(RECORD_TTL_SECONDS)
            await self._store.write([Put(key, codec.encode(each)) for key, each in batch.items()], lease)
            for key in batch:
                del self._waiting[key]
        if not self._waiting:
            self._some.clear()
