"""One active at a time: a Lease of coordination.k8s.io/v1, held on monotonic time.

No clock of another machine counts: who waits takes the Lease over once it has not changed for its duration, by its
own monotonic clock. Who holds it stops acting `renew_seconds` after it began the last call that renewed it. That is
less than the duration, so two never begin an action at once. A lease is no fence: a call that is under way may still
land, so every action must do no harm twice.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, NotFound
from leadsman.kube.objects import ObjectMeta
from leadsman.kube.resources import LEASES

_log = logging.getLogger(__name__)


class ElectionTiming(Struct, frozen=True):
    """duration: how long the Lease must be unchanged before another takes it. renew: how long its holder acts on one
    renewal. retry: between attempts. call: a call's time limit, the Client's deadline."""

    lease_duration_seconds: int = 15
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0
    call_timeout_seconds: float = 3.0

    def __post_init__(self) -> None:
        if (
            not self.retry_period_seconds + 2 * self.call_timeout_seconds
            <= self.renew_deadline_seconds
            < self.lease_duration_seconds
        ):
            raise ValueError("want retry + 2 call ≤ renew < duration, or one slow call loses the Lease")


class LeaseSpec(Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True):
    """Times in it are for people: nothing here reads them."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()

    @property
    def holder(self) -> str:
        return self.spec.holder_identity or ""


class LeaderElector:
    """`run` it as one task. client: of its own, so that other calls cannot hold it up, with timing's deadline.

    clock: monotonic seconds. wall_clock: UTC, written and never read.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        timing: ElectionTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
    ):
        self.timing = timing or ElectionTiming()
        self.holder, self.last_error = "", ""
        self._client, self._identity, self._path = client, identity, LEASES.path(namespace, name)
        self._collection_path, self._name, self._namespace = LEASES.path(namespace), name, namespace
        self._clock, self._wall_clock, self._rng = clock, wall_clock, rng or random.Random()
        self._seen_version, self._seen_at = "", clock()
        self._leads_until = float("-inf")
        self._logged_leader = False

    @property
    def is_leader(self) -> bool:
        return self._clock() < self._leads_until

    async def run(self) -> None:
        """For ever. ApiErrors are survived."""
        while True:
            await self.try_acquire_or_renew()
            await asyncio.sleep(self.timing.retry_period_seconds * self._rng.uniform(0.8, 1.2))

    async def try_acquire_or_renew(self) -> None:
        """One look, and a write where it is ours or free. Says when the lead changes."""
        try:
            await self._attempt()
            self.last_error = ""
        except ApiError as error:
            self.last_error = f"{type(error).__name__}: {error}"
        if self.is_leader != self._logged_leader:
            self._logged_leader = self.is_leader
            _log.info(
                "leading now" if self.is_leader else "not leading any more: %s",
                *(() if self.is_leader else self._loss_reason()),
            )

    async def release(self) -> None:
        """So that the next one need not wait. Nobody else's Lease is touched."""
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
        self.holder, self._leads_until = self._identity, began + self.timing.renew_deadline_seconds

    async def _read(self) -> Lease | None:
        try:
            lease = await self._client.get(self._path, Lease)
        except NotFound:
            return None
        if lease.metadata.resource_version != self._seen_version:
            self._seen_version, self._seen_at = lease.metadata.resource_version, self._clock()
        return lease

    def _is_free(self, lease: Lease) -> bool:
        duration = lease.spec.lease_duration_seconds or self.timing.lease_duration_seconds
        return not lease.holder or self._clock() - self._seen_at >= duration

    def _body(self, lease: Lease | None, holder: str) -> object:
        """With the resourceVersion that was read: of two who write, one gets Conflict."""
        now = f"{self._wall_clock():%Y-%m-%dT%H:%M:%S.%fZ}"
        old = lease.spec if lease else LeaseSpec()
        ours = old.holder_identity == holder
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": self.timing.lease_duration_seconds if holder else 1,
            "acquireTime": old.acquire_time if ours and old.acquire_time else now,
            "renewTime": now,
            "leaseTransitions": (old.lease_transitions or 0) + (0 if ours or not lease else 1),
        }
        version = {"resourceVersion": lease.metadata.resource_version} if lease else {}
        metadata = {"name": self._name, "namespace": self._namespace, **version}
        return {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}

    def _loss_reason(self) -> tuple[str]:
        return (self.last_error or f"{self.holder} holds the Lease",)


__all__ = ["Conflict", "ElectionTiming", "LeaderElector", "Lease"]
