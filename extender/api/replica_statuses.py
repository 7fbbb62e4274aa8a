"""What is known of the other replicas between requests: whether they answer, their policies and rates."""

import asyncio
from collections.abc import Mapping, Sequence

from extender.api.contract.cluster import PolicyRow
from extender.api.contract.common import ListPage
from extender.api.contract.decisions import SilentReplica
from extender.api.contract.overview import ReplicaRates, ReplicaStatus
from extender.api.parameters import MAX_LIMIT
from extender.api.replica_answers import ask_replicas
from extender.peers.client import PeerClient

REFRESH_SECONDS = 5.0


class ReplicaStatuses:
    """As of the last `refresh`; `run` it as one task.

    policies, rates: replica → what it says, of those that answered. without_rates: those that did not say their rates.
    """

    def __init__(self, replicas: PeerClient | None) -> None:
        self._replicas = replicas
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
        """Asks each replica. One that does not answer is known by its error alone."""
        query = {"limit": str(MAX_LIMIT)}
        (policies, silent), (rates, without_rates) = await asyncio.gather(
            ask_replicas(self._replicas, "/policies", query, ListPage[PolicyRow]),
            ask_replicas(self._replicas, "/rates", {}, ReplicaRates),
        )
        self.policies, self.rates = {name: each.items for name, each in policies}, dict(rates)
        said = {*self.rates, *(each.replica for each in without_rates)}
        older = [SilentReplica(name, "it runs an older version") for name in self.policies if name not in said]
        self.without_rates = [*without_rates, *older]
        answering = [ReplicaStatus(name, True, "") for name in self.policies]
        self.statuses = [*answering, *(ReplicaStatus(each.replica, False, each.error) for each in silent)]

    @property
    def newest(self) -> Mapping[str, str]:
        """Replica → the id of its newest decision, which changes with each."""
        return {name: each.newest_decision for name, each in self.rates.items()}
