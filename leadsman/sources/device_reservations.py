"""Reserves bandwidth and parts of devices for pods between the answer to kube-scheduler and the bind, for all replicas.

kube-scheduler asks one replica, takes a node of the answer, and asks for the next pod before the API server shows the
first one bound. So each pod that asks for bandwidth or for a part of a device is written to etcd before it is decided
on, and then all that is written is read. A pod counts the reservations of all pods that were written before it, on each
node where they may go: two replicas write at two revisions, and the later one sees the earlier.

A reservation ends when the pod is seen bound (its node counts it then) or ended, when it was refused everywhere, or
after RESERVED_SECONDS. docs/decisions/0049.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec import structs
from prometheus_client import Metric

from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.decision.devices.device_filter import needs_reservation
from leadsman.decision.inputs import DecisionInputs, Reservation
from leadsman.decision.model import PodInfo
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.device_follower import DeviceFollower
from leadsman.state import keys
from leadsman.state.records import BadRecord, DeviceReservation, decode_record, encode_record
from leadsman.state.store import Delete, LeaseLost, Put, Store, StoredItem, StoreError

RESERVED_SECONDS = 120
"""Longer than a watch of pods may go unconfirmed (device_follower.MAX_AGE_SECONDS)."""

LEASE_REUSE_SECONDS = 20.0
"""Reservations share a lease, which lives so much longer, so that most need no call for one."""

RESERVE_TIMEOUT_SECONDS = 0.1
"""A write and a read of etcd take some 2 ms each. kube-scheduler waits 300 ms for the whole answer."""

READ_TIMEOUT_SECONDS = 1.0
"""A read may take this long where nobody waits for an answer."""

WAIT_SECONDS, WAIT_STEP_SECONDS = 0.1, 0.005
"""A replica waits for what kube-scheduler has seen already, before a pod is refused everywhere: a watch lags by some 10
ms."""

WAITS_PER_SECOND = 2.0
"""Pods that fit nowhere must not take kube-scheduler's time from all others."""

MAX_NODES = 16
"""A reservation names at most so many kept nodes. One of a pod with more counts on every node: it would be a list of
thousands, read for each pod, and where so many have room, one place less on each is no loss."""

log = logging.getLogger(__name__)


async def reserved_uids(store: Store | None) -> Collection[str]:
    """Returns the pods that have a reservation; none of them while etcd does not answer."""
    if store is None:
        return ()
    try:
        async with asyncio.timeout(READ_TIMEOUT_SECONDS):
            items = (await store.read_prefix(keys.RESERVATIONS_PREFIX)).items
    except (StoreError, TimeoutError) as error:
        log.info("cannot list device reservations; those of pods that have ended count until they expire: %r", error)
        return ()
    return [item.key.removeprefix(keys.RESERVATIONS_PREFIX) for item in items]


class DeviceReservations:
    """Writes, reads and withdraws reservations in etcd.

    timeout_seconds: of the calls of etcd for one pod.
    clock: monotonic seconds.
    made, withdrawn, failures: for metrics.
    """

    def __init__(
        self,
        store: Store,
        source: DeviceFollower,
        timeout_seconds: float = RESERVE_TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.made = self.withdrawn = self.failures = 0
        self._store, self._source, self._timeout, self._clock = store, source, timeout_seconds, clock
        self._lease, self._lease_until = 0, float("-inf")
        self._waits = TokenBucket(WAITS_PER_SECOND, 2, clock)
        self._problem = ProblemLog(
            log,
            "cannot share reservations of devices through etcd; pods that ask for bandwidth or device memory wait",
            "reservations of devices are shared again",
        )

    async def reserve(self, pod: PodInfo, inputs: DecisionInputs) -> tuple[DecisionInputs, int]:
        """Reserves for the pod; returns the inputs with earlier reservations, and its order; 0: it needs none."""
        if not needs_reservation(pod, inputs):
            return inputs, 0
        try:
            encode_record(_record(pod))
        except BadRecord as error:
            return _refusing(inputs, f"what the pod asks of devices cannot be reserved: {error}"), 0
        order = 0
        try:
            async with asyncio.timeout(self._timeout):
                order = await self._write(pod)
                items = (await self._store.read_prefix(keys.RESERVATIONS_PREFIX)).items
            reserved = self._with_reservations(inputs, items, order)
        except BaseException as error:
            await self.settle(pod, order, ())
            if not isinstance(error, (StoreError, BadRecord, ValueError, TimeoutError)):
                raise
            return self._unknown(inputs, error), 0
        self._problem.clear()
        self.made += 1
        return reserved, order

    async def read(self, inputs: DecisionInputs, before: float = float("inf")) -> DecisionInputs:
        """Returns the inputs with the devices now and the reservations of an earlier order. Nothing is written.

        While etcd does not say what is reserved, pods that depend on it are refused by these inputs.
        """
        if not inputs.devices.followed:
            return inputs
        try:
            async with asyncio.timeout(self._timeout):
                items = (await self._store.read_prefix(keys.RESERVATIONS_PREFIX)).items
            return self._with_reservations(inputs, items, before)
        except (StoreError, BadRecord, TimeoutError) as error:
            return self._unknown(inputs, error)

    async def wait_for_change(self, inputs: DecisionInputs) -> bool:
        """Tells whether the nodes' devices change within WAIT_SECONDS from what these inputs have.

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
        """Withdraws the reservation of a pod that was refused everywhere, and otherwise names its nodes if they are
        few. What fails here leaves a reservation that counts for too much, until it ends."""
        if not order or len(kept) > MAX_NODES:
            return
        try:
            async with asyncio.timeout(self._timeout):
                if kept:
                    await self._write(pod, tuple(kept), order)
                else:
                    await self._store.write([Delete(keys.reservation_key(pod.uid))])
                    self.withdrawn += 1
        except (StoreError, BadRecord, TimeoutError) as error:
            log.info(
                "cannot narrow a device reservation; for at most %d s it holds more nodes than it needs: %s",
                RESERVED_SECONDS,
                error,
            )

    def families(self) -> Iterator[Metric]:
        """Yields its metrics; a scrape reads memory only."""
        made = "Pods for which bandwidth or a part of a device was reserved."
        yield counter("leadsman_extender_device_reservations", made, self.made)
        withdrawn = "Reservations of devices that ended at once because no node had what the pod asked."
        yield counter("leadsman_extender_device_reservations_withdrawn", withdrawn, self.withdrawn)
        failures = "Pods that were refused because etcd did not say what is reserved for other pods."
        yield counter("leadsman_extender_device_reservation_failures", failures, self.failures)

    def _with_reservations(self, inputs: DecisionInputs, items: Iterable[StoredItem], before: float) -> DecisionInputs:
        """Returns the inputs with the reservations of pods that are not settled. Raises BadRecord.

        What is settled is looked up in the same moment as the devices: a pod counts in the one or in the other.
        """
        reservations = []
        for item in items:
            uid, record = item.key.removeprefix(keys.RESERVATIONS_PREFIX), decode_record(DeviceReservation, item.value)
            if (record.order or item.mod_revision) < before and not self._source.is_settled(uid):
                demand = DeviceDemand(record.containers, record.memory_bytes, record.bandwidth_bits)
                nodes = None if record.nodes is None else frozenset(record.nodes)
                reservations.append(Reservation(uid, demand, nodes))
        problem = self._source.problem()
        devices = structs.replace(self._source.current, reservations=tuple(reservations), reservations_problem=problem)
        return structs.replace(inputs, devices=devices)

    async def _write(self, pod: PodInfo, nodes: tuple[str, ...] | None = None, order: int = 0) -> int:
        put = Put(keys.reservation_key(pod.uid), encode_record(_record(pod, nodes, order)))
        try:
            return await self._store.write([put], await self._current_lease())
        except LeaseLost:
            self._lease_until = float("-inf")
            return await self._store.write([put], await self._current_lease())

    async def _current_lease(self) -> int:
        if self._clock() >= self._lease_until:
            self._lease = await self._store.grant(RESERVED_SECONDS + int(LEASE_REUSE_SECONDS))
            self._lease_until = self._clock() + LEASE_REUSE_SECONDS
        return self._lease

    def _unknown(self, inputs: DecisionInputs, error: Exception) -> DecisionInputs:
        self.failures += 1
        self._problem.report(error)
        reason = "etcd does not say what bandwidth and devices are reserved for other pods; the log has the error"
        return _refusing(inputs, reason)


def _record(pod: PodInfo, nodes: tuple[str, ...] | None = None, order: int = 0) -> DeviceReservation:
    demand, containers = pod.devices, tuple(map(dict, pod.devices.containers))
    return DeviceReservation(containers, demand.bandwidth_bits, demand.memory_bytes, nodes, order)


def _refusing(inputs: DecisionInputs, reason: str) -> DecisionInputs:
    """Returns inputs by which every pod that needs a reservation is refused."""
    return structs.replace(inputs, devices=structs.replace(inputs.devices, reservations_problem=reason))
