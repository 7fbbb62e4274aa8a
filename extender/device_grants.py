"""What pods were promised of devices between the answer to kube-scheduler and the bind, shared by all replicas.

kube-scheduler asks one replica, takes a node of the answer, and asks for the next pod before the API server shows the
first one bound. So each pod that asks for bandwidth or for a part of a device is written to etcd before it is decided
on, and then all that is written is read. A pod counts the grants of all pods that were written before it, wherever they
may go: two replicas write at two revisions, and the later one sees the earlier.

A grant ends when the pod is seen bound (its node counts it then) or ended, when it was refused everywhere, or after
GRANT_SECONDS. docs/decisions/0049.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence

from msgspec import structs
from prometheus_client.core import CounterMetricFamily, Metric

from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.decision.devices.evaluation import needs_grant
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.device_promises import with_promises
from leadsman.sources.input_sources import DeviceSource
from leadsman.state import codec, keys
from leadsman.state.key_values import Delete, Put
from leadsman.state.records import DeviceGrant
from leadsman.state.store import LeaseLost, Store, StoreError

GRANT_SECONDS = 120
"""Longer than a watch of pods may go unconfirmed (device_follower.MAX_AGE_SECONDS)."""

LEASE_REUSE_SECONDS = 20.0
"""Grants share a lease, which lives so much longer, so that most need no call for one."""

RESERVE_TIMEOUT_SECONDS = 0.1
"""For a write and a read of etcd, some 2 ms each. kube-scheduler waits 300 ms for the whole answer."""

WAIT_SECONDS, WAIT_STEP_SECONDS = 0.1, 0.005
"""For what kube-scheduler has seen already, before a pod is refused everywhere. A watch lags by some 10 ms."""

WAITS_PER_SECOND = 2.0
"""At most: pods that fit nowhere must not take kube-scheduler's time from all others."""

MAX_NODES = 16
"""Kept nodes that a grant names; with more it counts on every node, which then is no loss."""

log = logging.getLogger(__name__)


class DeviceGrants:
    """Writes and reads the grants for the decider.

    clock: monotonic seconds.
    made, withdrawn, failures: for metrics.
    """

    def __init__(self, store: Store, source: DeviceSource, clock: Callable[[], float] = time.monotonic) -> None:
        self.made = self.withdrawn = self.failures = 0
        self._store, self._source, self._clock = store, source, clock
        self._lease, self._lease_until = 0, float("-inf")
        self._waits = TokenBucket(WAITS_PER_SECOND, 2, clock)
        self._problem = ProblemLog(
            log,
            "extender cannot share grants of devices through etcd; pods that ask for bandwidth or device memory wait",
            "extender shares grants of devices again",
        )

    async def reserve(self, pod: PodInfo, inputs: DecisionInputs) -> tuple[DecisionInputs, int]:
        """The inputs with the grants that were made before this pod's own, and the order of that; 0: it needs none."""
        if pod.bad_demand or not inputs.devices.followed or not needs_grant(pod.devices, inputs):
            return inputs, 0
        try:
            async with asyncio.timeout(RESERVE_TIMEOUT_SECONDS):
                order = await self._write(pod, _grant(pod.devices))
                items = (await self._store.read_prefix(keys.GRANTS_PREFIX)).items
        except (StoreError, codec.BadRecord, ValueError, TimeoutError) as error:
            return self._unknown(inputs, error), 0
        self._problem.clear()
        self.made += 1
        return with_promises(inputs, self._source, items, order), order

    async def read(self, pod: PodInfo, inputs: DecisionInputs, order: int = 0) -> DecisionInputs:
        """The inputs with the devices now and the grants made before `order`; 0: all. Nothing is written."""
        if pod.bad_demand or not inputs.devices.followed or not needs_grant(pod.devices, inputs):
            return inputs
        try:
            async with asyncio.timeout(RESERVE_TIMEOUT_SECONDS):
                listing = await self._store.read_prefix(keys.GRANTS_PREFIX)
        except (StoreError, TimeoutError) as error:
            return self._unknown(inputs, error)
        return with_promises(inputs, self._source, listing.items, order or listing.revision + 1)

    async def wait_for_change(self, inputs: DecisionInputs) -> bool:
        """Whether the devices of the nodes change within WAIT_SECONDS from what these inputs have.

        kube-scheduler tries a refused pod again when another one is bound or ends. It may see that some milliseconds
        before this process does, and the pod would then wait for the next such event, or for five minutes.
        """
        if not self._waits.try_take():
            return False
        until = self._clock() + WAIT_SECONDS
        while self._source.current.nodes is inputs.devices.nodes:
            if self._clock() >= until:
                return False
            await asyncio.sleep(WAIT_STEP_SECONDS)
        return True

    async def settle(self, pod: PodInfo, order: int, kept: Sequence[str]) -> None:
        """Withdraws the grant of a pod that was refused everywhere, and names the nodes if they are few. What fails
        here leaves a grant that counts for too much, until it ends."""
        if not order or len(kept) > MAX_NODES:
            return
        try:
            async with asyncio.timeout(RESERVE_TIMEOUT_SECONDS):
                if kept:
                    await self._write(pod, _grant(pod.devices, tuple(kept), order))
                else:
                    await self._store.write([Delete(keys.grant_key(pod.uid))])
                    self.withdrawn += 1
        except (StoreError, codec.BadRecord, TimeoutError) as error:
            log.info("a grant of devices stays wider than it must be, for at most %d s: %s", GRANT_SECONDS, error)

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        yield CounterMetricFamily(
            "leadsman_extender_device_grants", "Pods that were promised bandwidth or a part of a device.", self.made
        )
        yield CounterMetricFamily(
            "leadsman_extender_device_grants_withdrawn",
            "Promises of devices that ended at once because no node had what the pod asked.",
            self.withdrawn,
        )
        yield CounterMetricFamily(
            "leadsman_extender_device_grant_failures",
            "Pods that were refused because etcd did not say what other pods were promised.",
            self.failures,
        )

    async def _write(self, pod: PodInfo, grant: DeviceGrant) -> int:
        put = Put(keys.grant_key(pod.uid), codec.encode(grant))
        try:
            return await self._store.write([put], await self._current_lease())
        except LeaseLost:
            self._lease_until = float("-inf")
            return await self._store.write([put], await self._current_lease())

    async def _current_lease(self) -> int:
        if self._clock() >= self._lease_until:
            self._lease = await self._store.grant(GRANT_SECONDS + int(LEASE_REUSE_SECONDS))
            self._lease_until = self._clock() + LEASE_REUSE_SECONDS
        return self._lease

    def _unknown(self, inputs: DecisionInputs, error: Exception) -> DecisionInputs:
        self.failures += 1
        self._problem.report(error)
        reason = "etcd does not say what other pods were promised of bandwidth and devices; see the extender's log"
        return structs.replace(inputs, devices=structs.replace(inputs.devices, grants_problem=reason))


def _grant(demand: DeviceDemand, nodes: tuple[str, ...] | None = None, order: int = 0) -> DeviceGrant:
    return DeviceGrant(
        tuple(map(dict, demand.containers)),
        demand.bandwidth_bits,
        demand.memory_bytes,
        nodes,
        order,
        demand.allowed,
        demand.denied,
        demand.single_numa,
    )
