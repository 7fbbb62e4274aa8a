"""Asks for the Warning Events of pods that are in trouble, and of no other: the load follows the problems.

One pod at a time, with a pause, each pod once however often it is put forward meanwhile. A pod whose Events cannot be
had is judged by its status alone in the end: what happened to it is known, only the cause may be coarser.
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from agent.pods.book import Book
from apiserver.errors import ApiError, Forbidden
from apiserver.objects import Event, Pod
from apiserver.requests import Client
from apiserver.resources import EVENTS

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.2
MOST_TRIES = 3
MOST_EVENTS = 50


class _Events(Struct, frozen=True):
    items: tuple[Event, ...] = ()


class Inquiry:
    """asked, failures: for metrics."""

    def __init__(self, client: Client, book: Callable[[], Book], pause_seconds: float = PAUSE_SECONDS) -> None:
        self._client, self._book, self._pause_seconds = client, book, pause_seconds
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._known: set[str] = set()
        self._tries: dict[str, int] = {}
        self.asked, self.failures, self.last_error = 0, 0, ""

    def ask(self, uid: str) -> None:
        if uid not in self._known:
            self._known.add(uid)
            self._waiting.put_nowait(uid)

    async def run(self) -> None:
        """For ever."""
        while True:
            uid = await self._waiting.get()
            self._known.discard(uid)
            life = self._book().lives.get(uid)
            if life is None:
                self._tries.pop(uid, None)  # it is gone, and was judged when it went
                continue
            await self._judged(uid, life.pod)
            await asyncio.sleep(self._pause_seconds)

    async def _judged(self, uid: str, pod: Pod) -> None:
        try:
            events = await self._events(pod)
        except ApiError as error:
            self._failed(uid, error)
            return
        self._settled(uid, events)
        self.last_error = ""

    async def _events(self, pod: Pod) -> tuple[Event, ...]:
        meta = pod.metadata
        fields = f"involvedObject.uid={meta.uid},type=Warning"
        self.asked += 1
        query = {"fieldSelector": fields, "limit": str(MOST_EVENTS)}
        return (await self._client.get(EVENTS.path(meta.namespace), _Events, query)).items

    def _failed(self, uid: str, error: ApiError) -> None:
        self.failures += 1
        if not self.last_error:
            log.warning("events of a pod in trouble cannot be read: %s", error)
        self.last_error = str(error)
        self._tries[uid] = self._tries.get(uid, 0) + 1
        if isinstance(error, Forbidden) or self._tries[uid] >= MOST_TRIES:
            self._settled(uid, ())
        else:
            self.ask(uid)

    def _settled(self, uid: str, events: tuple[Event, ...]) -> None:
        self._tries.pop(uid, None)
        if uid in self._book().lives:
            self._book().judge(uid, events)
