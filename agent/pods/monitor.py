"""Follows the pods of this node and keeps the ledger of them: the loops around the pure rules of this room, and what
/metrics shows of them.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from msgspec import Struct
from prometheus_client import Metric

from agent.pods.incident_ledger import DEFAULT_LIMITS, IncidentLedger, LedgerLimits
from agent.pods.quality_observer import QualityObserver, reward_plugins
from agent.pods.reward_persistence import BindFailureCounter, RewardPersistence
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Forbidden
from leadsman.kube.events import warnings_about
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Event, Pod
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import PODS
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.2
MAX_ATTEMPTS = 3


class EventLookup:
    """Looks up the Warning Events of failing pods, and of no others: the load follows the problems.

    One pod at a time, with a pause between two; one that is put forward again meanwhile is looked up once. When a
    pod's Events cannot be read, its incidents are counted by its status alone, with causes that may be coarser.
    """

    def __init__(self, client: ApiClient, ledger: Callable[[], IncidentLedger]) -> None:
        self._client, self._ledger, self._pause_seconds = client, ledger, PAUSE_SECONDS
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._attempts: dict[str, int] = {}
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
        events: tuple[Event, ...] = ()
        try:
            events = await warnings_about(self._client, pod.metadata)
        except ApiError as error:
            self._problem.report(error)
            self._attempts[uid] = self._attempts.get(uid, 0) + 1
            if not isinstance(error, Forbidden) and self._attempts[uid] < MAX_ATTEMPTS:
                self.enqueue(uid)
                return
        else:
            self._problem.clear()
        self._attempts.pop(uid, None)
        if uid in self._ledger().pods:
            self._ledger().count_incidents(uid, events)


class PodSettings(Struct, frozen=True):
    """Says how this node's pods are followed.

    api: where pods are listed and watched.
    limits: of the ledger.
    account_seconds: time between two credits of health, which also look for stuck pods.
    observe_seconds: time between two observations of pods' own metrics and by plugins; 0 switches both off.
    reward_plugins: names of other packages' rewards.
    """

    api: ApiAccess
    limits: LedgerLimits = DEFAULT_LIMITS
    account_seconds: float = 15.0
    observe_seconds: float = 30.0
    reward_plugins: tuple[str, ...] = ()


class PodMonitor:
    """The loops that learn from this node's pods.

    ledger: None until the saved state is restored; before that, anything counted could be counted twice.
    rounds: completed turns of the health loop, and attempts to restore; it stands still when the monitor hangs.
    """

    def __init__(
        self,
        node: str,
        settings: PodSettings,
        persistence: RewardPersistence,
        push_interval_seconds: float,
        stretched_interval_seconds: Callable[[], float],
        clock: Callable[[], float],
        unix: Callable[[], float],
    ) -> None:
        """push_interval_seconds: as it is set. stretched_interval_seconds: as it is in a cluster of this size.

        clock: monotonic seconds. unix: Unix seconds.
        """
        self._settings, self._persistence = settings, persistence
        self._push_interval_seconds, self._stretched_seconds = push_interval_seconds, stretched_interval_seconds
        self._clock, self._unix = clock, unix
        self._listed = False
        self.client = ApiClient(settings.api, connections=4)
        own_pods = ListOptions(PODS, field_selector=f"spec.nodeName={node}")
        self.pods: Reflector[Pod] = Reflector(
            self.client, own_pods, Pod, on_changes=self._apply_changes, cached=True, clock=clock
        )
        self.bind_failures = BindFailureCounter(persistence.store, node)
        self.event_lookup = EventLookup(self.client, self._restored_ledger)
        self.observer = QualityObserver(
            self._restored_ledger, settings.observe_seconds, reward_plugins(settings.reward_plugins)
        )
        self.ledger: IncidentLedger | None = None
        self.rounds = 0

    async def run(self) -> None:
        """Runs until cancelled. Survives faults of the API server, of etcd and of the pods' own endpoints."""
        restored = await self._persistence.restore(self._count_round)
        self.ledger = IncidentLedger(*restored, self._clock, self._unix, self._settings.limits)
        async with asyncio.TaskGroup() as group:
            for name, loop in self._loops().items():
                group.create_task(loop, name=name)

    async def close(self) -> None:
        """Saves what was counted, if etcd takes it, and closes the connections."""
        if self.ledger is not None:
            await self._persistence.save(self.ledger)
        await self.client.close()

    @property
    def is_current(self) -> bool:
        """Tells whether the list of pods is what the API server has now."""
        return self.pods.loaded.is_set() and not self.pods.problem.text

    def account_health(self) -> None:
        """Credits health up to now and looks up pods that have been starting for too long.

        Does nothing while the API server is away: what stayed healthy meanwhile is credited when it is back.
        """
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
            "credit health": self._credit_health(),
            "look up events": self.event_lookup.run(),
            "observe pods": self.observer.run(),
            "save rewards": self._save(),
            "count bind failures": self.bind_failures.run(self._restored_ledger, self._stretched_seconds),
        }

    def _restored_ledger(self) -> IncidentLedger:
        assert self.ledger is not None, "pods are followed once the ledger is restored"
        return self.ledger

    def _count_round(self) -> None:
        self.rounds += 1

    def _apply_changes(self, changes: Sequence[ObjectChange[Pod]]) -> None:
        if not self._listed:
            self._first_seen([change.object for change in changes if self.pods.relists == 0])
        for change in changes:
            if change.kind is ChangeType.DELETED:
                self._restored_ledger().on_pod_deleted(change.object)
            elif self._restored_ledger().on_pod_updated(change.object):
                self.event_lookup.enqueue(change.object.metadata.uid)

    def _first_seen(self, pods: Sequence[Pod]) -> None:
        self._listed = True
        self._restored_ledger().on_first_list(pods)

    async def _credit_health(self) -> None:
        """Turns once a push interval, more often than it credits: after three of them without a turn it looks hung."""
        due = self._clock()
        while True:
            if self._clock() >= due:
                due += self._settings.account_seconds
                self.account_health()
            self._count_round()
            await asyncio.sleep(min(self._push_interval_seconds, self._settings.account_seconds))

    async def _save(self) -> None:
        while True:
            await asyncio.sleep(self._push_interval_seconds)
            await self._persistence.save(self._restored_ledger())


# Metrics of this node's pods. The number of series is bounded: 64 types of pod, and of causes.


def pod_metrics(monitor: PodMonitor, persistence: RewardPersistence) -> Iterator[Metric]:
    pods = monitor.pods
    yield gauge("leadsman_pods", "Pods of this node.", len(pods.current))
    yield gauge(
        "leadsman_pods_followed",
        "1 while the agent has the current list of this node's pods from the API server.",
        monitor.is_current,
    )
    yield counter(
        "leadsman_pods_errors",
        "Calls to the API server for the node's pods that failed, by error.",
        pods.errors,
        "error",
    )
    yield counter("leadsman_rewards_writes", "Writes of rewards that etcd acknowledged.", persistence.writes)
    yield counter("leadsman_rewards_write_failures", "Writes of rewards that failed.", persistence.failures)
    yield gauge(
        "leadsman_reward_plugin_active",
        "1 while the last call of the reward plugin gave costs, 0 while it fails or rests.",
        {plugin.name: not plugin.problem.text for plugin in monitor.observer.plugins},
        "plugin",
    )
    if monitor.ledger is not None:  # Series of types that the ledger dropped go.
        yield from _ledger_metrics(monitor.ledger)


def _ledger_metrics(ledger: IncidentLedger) -> Iterator[Metric]:
    yield counter(
        "leadsman_incidents",
        "Incidents of this node's pods, by type of pod and cause.",
        ledger.incident_counts,
        "type",
        "cause",
    )
    yield counter(
        "leadsman_pod_healthy_seconds",
        "Seconds in which this node's pods were healthy, by type of pod.",
        ledger.healthy_seconds,
        "type",
    )
