"""Follows the pods of this node, and keeps the node's book of them. The shell around agent.pods' rules."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from agent.pods.binds import Binds
from agent.pods.book import Book
from agent.pods.inquiry import Inquiry
from agent.pods.observing import Observing
from agent.pods.settings import PodSettings
from agent.rewards import Cache
from apiserver.changes import Change, Kind
from apiserver.listing import Wanted
from apiserver.objects import Pod
from apiserver.requests import Client
from apiserver.resources import PODS
from apiserver.watching import Reflector

TURN_SECONDS = 1.0
"""Well within three push intervals of 1 s, after which a loop that stands counts as stalled."""


class PodMonitor:
    """book: None until what was kept is read back; before that nothing can be counted without counting it twice.

    clock: monotonic seconds. unix: Unix seconds. rounds: accounts made, or waits for the store: the loop turns.
    """

    def __init__(
        self,
        node: str,
        settings: PodSettings,
        cache: Cache,
        keep_seconds: Callable[[], float],
        clock: Callable[[], float],
        unix: Callable[[], float],
    ) -> None:
        self._settings, self._cache, self._keep_seconds = settings, cache, keep_seconds
        self._clock, self._unix = clock, unix
        self._listed = False
        self.client = Client(settings.api, connections=4)
        wanted = Wanted(PODS, fields=f"spec.nodeName={node}")
        self.pods: Reflector[Pod] = Reflector(
            self.client, wanted, Pod, on_changes=self._changed, cached=True, clock=clock
        )
        self.binds = Binds(cache.store, node)
        self.inquiry = Inquiry(self.client, self._opened)
        self.observing = Observing(self._opened, settings.observe_seconds)
        self.book: Book | None = None
        self.rounds = 0

    async def run(self) -> None:
        """For ever. Faults of the API server, the store and the pods' own endpoints are survived."""
        kept = await self._cache.restored(self._turned)
        self.book = Book(kept, self._clock, self._unix, self._settings.limits)
        async with asyncio.TaskGroup() as group:
            for name, loop in self._loops().items():
                group.create_task(loop, name=name)

    async def close(self) -> None:
        """What was counted is kept, if the store takes it, and connections are closed."""
        if self.book is not None:
            await self._cache.keep(self.book)
        await self.client.close()

    @property
    def followed(self) -> bool:
        """Whether the view is what the API server says now."""
        return self.pods.loaded.is_set() and not self.pods.last_error

    def account(self) -> None:
        """Health up to now, and pods that have been starting for too long. While the API server is away nothing is
        known to be healthy: what went on unchanged is credited when it is back."""
        if self.book is None or not self.followed:
            return
        if not self._listed:
            self._first_seen(())
        self.book.credit()
        for uid in self.book.stuck():
            self.inquiry.ask(uid)

    def _loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        return {
            "follow pods": self.pods.run(),
            "account for health": self._account(),
            "ask for events": self.inquiry.run(),
            "observe pods": self.observing.run(),
            "keep rewards": self._keep(),
            "count binds": self.binds.run(self._opened),
        }

    def _opened(self) -> Book:
        assert self.book is not None, "pods are followed after the book is opened"
        return self.book

    def _turned(self) -> None:
        self.rounds += 1

    def _changed(self, changes: Sequence[Change[Pod]]) -> None:
        if not self._listed:
            self._first_seen([change.object for change in changes if self.pods.relists == 0])
        for change in changes:
            self._take(change)

    def _first_seen(self, pods: Sequence[Pod]) -> None:
        self._listed = True
        self._opened().listed(pods)

    def _take(self, change: Change[Pod]) -> None:
        if change.kind is Kind.DELETED:
            self._opened().gone(change.object)
        elif self._opened().seen(change.object):
            self.inquiry.ask(change.object.metadata.uid)

    async def _account(self) -> None:
        """The loop turns oftener than it accounts, so that a long account interval does not look like a hang."""
        due = self._clock()
        while True:
            if self._clock() >= due:
                due += self._settings.account_seconds
                self.account()
            self._turned()
            await asyncio.sleep(min(TURN_SECONDS, self._settings.account_seconds))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._keep_seconds())
            await self._cache.keep(self._opened())
