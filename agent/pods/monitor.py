"""Follows the pods of this node, and keeps the node's book of them. The shell around agent.pods' rules."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from agent.pods.bind_failures import BindFailureCounter
from agent.pods.event_lookup import EventLookup
from agent.pods.incident_ledger import IncidentLedger
from agent.pods.quality_observer import QualityObserver
from agent.pods.reward_persistence import RewardPersistence
from agent.pods.settings import PodSettings
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Pod
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import PODS

MAX_LOOP_SLEEP_SECONDS = 1.0
"""Well within three push intervals of 1 s, after which a loop that stands counts as stalled."""


class PodMonitor:
    """book: None until what was kept is read back; before that nothing can be counted without counting it twice.

    clock: monotonic seconds. unix: Unix seconds. rounds: accounts made, or waits for the store: the loop turns.
    """

    def __init__(
        self,
        node: str,
        settings: PodSettings,
        cache: RewardPersistence,
        keep_seconds: Callable[[], float],
        clock: Callable[[], float],
        unix: Callable[[], float],
    ) -> None:
        self._settings, self._cache, self._keep_seconds = settings, cache, keep_seconds
        self._clock, self._unix = clock, unix
        self._listed = False
        self.client = ApiClient(settings.api, connections=4)
        wanted = ListOptions(PODS, field_selector=f"spec.nodeName={node}")
        self.pods: Reflector[Pod] = Reflector(
            self.client, wanted, Pod, on_changes=self._changed, cached=True, clock=clock
        )
        self.bind_failures = BindFailureCounter(cache.store, node)
        self.event_lookup = EventLookup(self.client, self._opened)
        self.observer = QualityObserver(self._opened, settings.observe_seconds)
        self.ledger: IncidentLedger | None = None
        self.rounds = 0

    async def run(self) -> None:
        """For ever. Faults of the API server, the store and the pods' own endpoints are survived."""
        kept = await self._cache.restore(self._turned)
        self.ledger = IncidentLedger(kept, self._clock, self._unix, self._settings.limits)
        async with asyncio.TaskGroup() as group:
            for name, loop in self._loops().items():
                group.create_task(loop, name=name)

    async def close(self) -> None:
        """What was counted is kept, if the store takes it, and connections are closed."""
        if self.ledger is not None:
            await self._cache.save(self.ledger)
        await self.client.close()

    @property
    def is_current(self) -> bool:
        """Whether the view is what the API server says now."""
        return self.pods.loaded.is_set() and not self.pods.problem.text

    def account_health(self) -> None:
        """Health up to now, and pods that have been starting for too long. While the API server is away nothing is
        known to be healthy: what went on unchanged is credited when it is back."""
        if self.ledger is None or not self.is_current:
            return
        if not self._listed:
            self._first_seen(())
        self.ledger.credit_health()
        for uid in self.ledger.stuck_pods():
            self.event_lookup.enqueue(uid)

    def _loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        return {
            "follow pods": self.pods.run(),
            "account for health": self._account(),
            "ask for events": self.event_lookup.run(),
            "observe pods": self.observer.run(),
            "keep rewards": self._keep(),
            "count binds": self.bind_failures.run(self._opened),
        }

    def _opened(self) -> IncidentLedger:
        assert self.ledger is not None, "pods are followed after the book is opened"
        return self.ledger

    def _turned(self) -> None:
        self.rounds += 1

    def _changed(self, changes: Sequence[ObjectChange[Pod]]) -> None:
        if not self._listed:
            self._first_seen([change.object for change in changes if self.pods.relists == 0])
        for change in changes:
            self._take(change)

    def _first_seen(self, pods: Sequence[Pod]) -> None:
        self._listed = True
        self._opened().on_first_list(pods)

    def _take(self, change: ObjectChange[Pod]) -> None:
        if change.kind is ChangeType.DELETED:
            self._opened().on_pod_deleted(change.object)
        elif self._opened().on_pod_updated(change.object):
            self.event_lookup.enqueue(change.object.metadata.uid)

    async def _account(self) -> None:
        """The loop turns oftener than it accounts, so that a long account interval does not look like a hang."""
        due = self._clock()
        while True:
            if self._clock() >= due:
                due += self._settings.account_seconds
                self.account_health()
            self._turned()
            await asyncio.sleep(min(MAX_LOOP_SLEEP_SECONDS, self._settings.account_seconds))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._keep_seconds())
            await self._cache.save(self._opened())
