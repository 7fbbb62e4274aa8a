"""Elects one active replica through a Lease of coordination.k8s.io/v1, by monotonic time.

No clock of another machine counts: a waiting replica takes the Lease once it has not changed for its duration, by its
own monotonic clock. The holder stops acting RENEW_DEADLINE_SECONDS after it began the last call that renewed it. That
is less than the duration, so two replicas never begin an action at once. A Lease is not a fence: a call under way may
still land, so every action must be harmless when done twice.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.kube.objects import ObjectIdentity
from leadsman.kube.resources import LEASES
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)


LEASE_DURATION_SECONDS = 15
"""The Lease must be unchanged for this before another replica takes it."""

RENEW_DEADLINE_SECONDS = 10.0
"""The holder acts for this on one renewal: less than the duration, and longer than a pause and two calls, or one slow
call would lose the Lease."""

RETRY_PERIOD_SECONDS = 2.0

CALL_TIMEOUT_SECONDS = 3.0
"""The deadline of the elector's own client."""


class LeaseSpec(Struct, frozen=True, rename="camel"):
    """The spec of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True):
    """A Lease of the elector. Its times are for people: nothing here reads them."""

    metadata: ObjectIdentity
    spec: LeaseSpec = LeaseSpec()

    @property
    def holder(self) -> str:
        return self.spec.holder_identity or ""


class LeaderElector:
    """Acquires and renews the Lease. `run` it as one task.

    client: its own, so that other calls cannot delay it, with the call timeout as its deadline.
    clock: monotonic seconds.
    wall_clock: UTC, written and never read.
    holder: the last known holder.
    problem: why the last attempt failed.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self.holder = ""
        self.problem = ProblemLog(
            _log,
            "cannot read or write the Lease; this replica does not lead unless a retry succeeds in time",
            "the Lease is read and written again",
        )
        self._client, self._identity, self._path = client, identity, LEASES.path(namespace, name)
        self._collection_path, self._name, self._namespace = LEASES.path(namespace), name, namespace
        self._clock, self._wall_clock = clock, wall_clock
        self._observed_version, self._observed_at = "", clock()
        self._leads_until = float("-inf")
        self._logged_leader = False

    @property
    def is_leader(self) -> bool:
        """Tells whether this replica may act now."""
        return self._clock() < self._leads_until

    async def run(self) -> None:
        """Runs until cancelled. An ApiError is retried."""
        while True:
            await self.try_acquire_or_renew()
            await asyncio.sleep(RETRY_PERIOD_SECONDS * random.uniform(0.8, 1.2))

    async def try_acquire_or_renew(self) -> None:
        """Reads the Lease once, and writes it if it is ours or free. Logs a change of leadership."""
        try:
            await self._attempt()
            self.problem.clear()
        except ApiError as error:
            self.problem.report(error)
        if self.is_leader != self._logged_leader:
            self._logged_leader = self.is_leader
            lost = f"lost leadership: {self.problem.text or f'{self.holder} holds the Lease'}"
            _log.info("became leader" if self.is_leader else lost)

    async def release(self) -> None:
        """Gives the Lease up, so that the next leader need not wait. Another holder's Lease is not changed."""
        if self._leads_until == float("-inf"):
            return
        self._leads_until = float("-inf")
        lease = await self._read()
        if lease is not None and lease.holder == self._identity:
            await self._client.replace(self._path, self._body(lease, holder=""))

    async def _attempt(self) -> None:
        began, lease = self._clock(), await self._read()
        if lease is None:
            await self._client.create(self._collection_path, self._body(None, self._identity))
        elif lease.holder == self._identity or self._is_free(lease):
            await self._client.replace(self._path, self._body(lease, self._identity))
        else:
            self.holder, self._leads_until = lease.holder, float("-inf")
            return
        self.holder, self._leads_until = self._identity, began + RENEW_DEADLINE_SECONDS

    async def _read(self) -> Lease | None:
        try:
            lease = await self._client.get(self._path, Lease)
        except NotFound:
            return None
        if lease.metadata.resource_version != self._observed_version:
            self._observed_version, self._observed_at = lease.metadata.resource_version, self._clock()
        return lease

    def _is_free(self, lease: Lease) -> bool:
        duration = lease.spec.lease_duration_seconds or LEASE_DURATION_SECONDS
        return not lease.holder or self._clock() - self._observed_at >= duration

    def _body(self, lease: Lease | None, holder: str) -> object:
        """Returns the Lease to write, with the resourceVersion that was read: of two writers, one gets Conflict."""
        now = f"{self._wall_clock():%Y-%m-%dT%H:%M:%S.%fZ}"
        old = lease.spec if lease else LeaseSpec()
        ours = old.holder_identity == holder
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": LEASE_DURATION_SECONDS if holder else 1,
            "acquireTime": old.acquire_time if ours and old.acquire_time else now,
            "renewTime": now,
            "leaseTransitions": (old.lease_transitions or 0) + (0 if ours or not lease else 1),
        }
        version = {"resourceVersion": lease.metadata.resource_version} if lease else {}
        metadata = {"name": self._name, "namespace": self._namespace, **version}
        return {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}
