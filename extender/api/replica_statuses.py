"""What is known of other processes between requests: whether replicas answer, their policies, rates and attempts, and
whether a controller says its plan.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from extender.api.contract.cluster import Plan, PolicyRow
from extender.api.contract.common import ListPage
from extender.api.contract.decisions import SilentReplica
from extender.api.contract.overview import BoundedPod, ReplicaRates, ReplicaStatus
from extender.api.parameters import MAX_LIMIT
from extender.api.plan_page import current_plan
from extender.api.replica_answers import ask_replicas
from extender.peers.client import PeerClient

REFRESH_SECONDS = 5.0


class ReplicaStatuses:
    """As of the last `refresh`; `run` it as one task.

    policies, rates: replica → what it says, of those that answered. without_rates: those that did not say their rates.
    plan: None: no controller was asked.
    """

    def __init__(
        self,
        replicas: PeerClient | None,
        controllers: PeerClient | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replicas, self._controllers, self._clock = replicas, controllers, clock
        self._refreshed_at = clock()
        self.plan: Plan | None = None
        self.statuses: Sequence[ReplicaStatus] = ()
        self.policies: Mapping[str, Sequence[PolicyRow]] = {}
        self.rates: Mapping[str, ReplicaRates] = {}
        self.without_rates: Sequence[SilentReplica] = ()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_SECONDS)

    async def refresh(self) -> None:
        """Asks each process. One that does not answer is known by its error alone."""
        query = {"limit": str(MAX_LIMIT)}
        (policies, silent), (rates, without_rates), plan = await asyncio.gather(
            ask_replicas(self._replicas, "/policies", query, ListPage[PolicyRow]),
            ask_replicas(self._replicas, "/rates", {}, ReplicaRates),
            current_plan(self._controllers),
        )
        self._refreshed_at = self._clock()
        self.plan = plan if self._controllers else None
        self.policies, self.rates = {name: each.items for name, each in policies}, dict(rates)
        said = {*self.rates, *(each.replica for each in without_rates)}
        older = [SilentReplica(name, "it runs an older version") for name in self.policies if name not in said]
        self.without_rates = [*without_rates, *older]
        answering = [ReplicaStatus(name, True, "") for name in self.policies]
        self.statuses = [*answering, *(ReplicaStatus(each.replica, False, each.error) for each in silent)]

    @property
    def bounded_pods(self) -> Sequence[Sequence[BoundedPod]]:
        """Of each replica that answered, as many seconds ago as it is now."""
        age = self._clock() - self._refreshed_at
        return [[_older(pod, age) for pod in each.bounded_pods] for each in self.rates.values()]

    @property
    def newest(self) -> Mapping[str, str]:
        """Replica → the id of its newest decision, which changes with each."""
        return {name: each.newest_decision for name, each in self.rates.items()}


def _older(pod: BoundedPod, seconds: float) -> BoundedPod:
    waiting = None if pod.waiting_seconds is None else pod.waiting_seconds + seconds
    return replace(pod, waiting_seconds=waiting, tried_seconds_ago=pod.tried_seconds_ago + seconds)
