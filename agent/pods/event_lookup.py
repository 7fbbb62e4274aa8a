"""Looks up the Warning Events of failing pods, and of no others: the load follows the problems.

One pod at a time, with a pause between two. A pod that is put forward several times meanwhile is looked up once. When a
pod's Events cannot be read, its incidents are counted by its status alone, with causes that may be coarser.
"""

import asyncio
import logging
from collections.abc import Callable

from agent.pods.incident_ledger import IncidentLedger
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Forbidden
from leadsman.kube.events import warnings_about
from leadsman.kube.objects import Event, Pod
from leadsman.runtime.problem_log import ProblemLog

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.2
MAX_ATTEMPTS = 3


class EventLookup:
    """A queue of pods to look up.

    lookups, failures: since the start, for metrics.
    """

    def __init__(
        self, client: ApiClient, ledger: Callable[[], IncidentLedger], pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self._client, self._ledger, self._pause_seconds = client, ledger, pause_seconds
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._attempts: dict[str, int] = {}
        self.lookups, self.failures = 0, 0
        self._problem = ProblemLog(
            log,
            "agent cannot list Events of a failing pod, so causes may be coarser (it needs the right to list events)",
            "agent lists Events of failing pods again",
        )

    def enqueue(self, uid: str) -> None:
        if uid not in self._queued:
            self._queued.add(uid)
            self._waiting.put_nowait(uid)

    async def run(self) -> None:
        """Looks pods up until cancelled."""
        while True:
            uid = await self._waiting.get()
            self._queued.discard(uid)
            health = self._ledger().pods.get(uid)
            if health is None:
                self._attempts.pop(uid, None)  # deleted, and counted when it was
                continue
            await self._look_up(uid, health.pod)
            await asyncio.sleep(self._pause_seconds)

    async def _look_up(self, uid: str, pod: Pod) -> None:
        self.lookups += 1
        try:
            events = await warnings_about(self._client, pod.metadata)
        except ApiError as error:
            self._failed(uid, error)
            return
        self._count(uid, events)
        self._problem.clear()

    def _failed(self, uid: str, error: ApiError) -> None:
        self.failures += 1
        self._problem.report(error)
        self._attempts[uid] = self._attempts.get(uid, 0) + 1
        if isinstance(error, Forbidden) or self._attempts[uid] >= MAX_ATTEMPTS:
            self._count(uid, ())
        else:
            self.enqueue(uid)

    def _count(self, uid: str, events: tuple[Event, ...]) -> None:
        self._attempts.pop(uid, None)
        if uid in self._ledger().pods:
            self._ledger().count_incidents(uid, events)
