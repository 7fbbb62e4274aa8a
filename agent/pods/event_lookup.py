"""Asks for the Warning Events of pods that are in trouble, and of no other: the load follows the problems.

One pod at a time, with a pause, each pod once however often it is put forward meanwhile. A pod whose Events cannot be
had is judged by its status alone in the end: what happened to it is known, only the cause may be coarser.
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
    """lookups, failures: for metrics."""

    def __init__(
        self, client: ApiClient, book: Callable[[], IncidentLedger], pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self._client, self._book, self._pause_seconds = client, book, pause_seconds
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._known: set[str] = set()
        self._tries: dict[str, int] = {}
        self.lookups, self.failures = 0, 0
        self._problem = ProblemLog(
            log,
            "agent cannot list Events of a failing pod, so causes may be coarser (it needs the right to list events)",
            "agent lists Events of failing pods again",
        )

    def enqueue(self, uid: str) -> None:
        if uid not in self._known:
            self._known.add(uid)
            self._waiting.put_nowait(uid)

    async def run(self) -> None:
        """For ever."""
        while True:
            uid = await self._waiting.get()
            self._known.discard(uid)
            life = self._book().pods.get(uid)
            if life is None:
                self._tries.pop(uid, None)  # it is gone, and was judged when it went
                continue
            await self._judged(uid, life.pod)
            await asyncio.sleep(self._pause_seconds)

    async def _judged(self, uid: str, pod: Pod) -> None:
        self.lookups += 1
        try:
            events = await warnings_about(self._client, pod.metadata)
        except ApiError as error:
            self._failed(uid, error)
            return
        self._settled(uid, events)
        self._problem.clear()

    def _failed(self, uid: str, error: ApiError) -> None:
        self.failures += 1
        self._problem.report(error)
        self._tries[uid] = self._tries.get(uid, 0) + 1
        if isinstance(error, Forbidden) or self._tries[uid] >= MAX_ATTEMPTS:
            self._settled(uid, ())
        else:
            self.enqueue(uid)

    def _settled(self, uid: str, events: tuple[Event, ...]) -> None:
        self._tries.pop(uid, None)
        if uid in self._book().pods:
            self._book().count_incidents(uid, events)
