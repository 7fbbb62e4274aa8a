"""What is known of the other replicas between requests: whether they answer, their policies and newest decisions."""

import asyncio
from collections.abc import Mapping, Sequence

from extender.api.contract.cluster import PolicyRow
from extender.api.contract.common import ListPage
from extender.api.contract.decisions import DecisionList
from extender.api.contract.overview import ReplicaStatus
from extender.api.parameters import MAX_LIMIT
from extender.api.replica_answers import ask_replicas
from extender.peers.client import PeerClient

REFRESH_SECONDS = 5.0


class ReplicaStatuses:
    """As of the last `refresh`; `run` it as one task.

    policies: replica → its policies, of those that answered. newest: an id a replica, which changes with each decision.
    """

    def __init__(self, replicas: PeerClient | None) -> None:
        self._replicas = replicas
        self.statuses: Sequence[ReplicaStatus] = ()
        self.policies: Mapping[str, Sequence[PolicyRow]] = {}
        self.newest: Mapping[str, str] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_SECONDS)

    async def refresh(self) -> None:
        """Asks each replica. One that does not answer is known by its error alone."""
        decisions, _ = await ask_replicas(self._replicas, "/decisions", {"limit": "1"}, DecisionList)
        self.newest = {name: row.id for name, each in decisions for row in each.items}
        query = {"limit": str(MAX_LIMIT)}
        policies, silent = await ask_replicas(self._replicas, "/policies", query, ListPage[PolicyRow])
        self.policies = {name: each.items for name, each in policies}
        answering = [ReplicaStatus(name, True, "") for name in self.policies]
        self.statuses = [*answering, *(ReplicaStatus(each.replica, False, each.error) for each in silent)]
