"""What is reserved of devices for pods by two replicas that share a store: the later always counts the earlier."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices
from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs, DeviceInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.sources.device_reservations import LEASE_REUSE_SECONDS, MAX_NODES, RESERVED_SECONDS, DeviceReservations
from leadsman.state import keys
from leadsman.state.snapshot import Snapshot
from leadsman.state.store import Listing, Put, Unavailable
from tests.memory_store import MemoryStore

I915, MEMORY = "gpu.intel.com/i915", "gpu.intel.com/memory.max"
FIVE = DeviceDemand(({I915: 1, MEMORY: 5},))
NODE = NodeDevices({I915: 20, MEMORY: 16}, {"gpu.intel.com/cards": "card0.card1"})


class Devices(Struct):
    """A source of devices, as one replica sees them. bound: pod → node."""

    nodes: Mapping[str, NodeDevices]
    ended: frozenset[str] = frozenset()
    text: str = ""

    @property
    def current(self) -> DeviceInputs:
        return DeviceInputs(True, self.nodes)

    def bind(self, uid: str, node: str) -> None:
        before = self.nodes[node]
        bound = NodeDevices(before.allocatable, before.labels, {**before.pods, uid: FIVE})
        self.nodes = {**self.nodes, node: bound}

    def problem(self) -> str:
        return self.text

    def is_settled(self, uid: str) -> bool:
        return uid in self.ended or any(uid in node.pods for node in self.nodes.values())


class Replica:
    """An extender's part that reserves and decides, on a clock of the test."""

    def __init__(self, store: MemoryStore, nodes: int = 1, clock: list[float] | None = None) -> None:
        self.clock = clock or [0.0]
        self.devices = Devices({f"edge-{number}": NODE for number in range(nodes)})
        self.reservations = DeviceReservations(store, cast("Any", self.devices), clock=lambda: self.clock[0])

    def inputs(self) -> DecisionInputs:
        return DecisionInputs(Snapshot(), Policy(), 0.0, devices=self.devices.current)

    async def filter(self, uid: str, demand: DeviceDemand = FIVE) -> tuple[str, ...]:
        pod = pod_of(uid, demand)
        inputs, order = await self.reservations.reserve(pod, self.inputs())
        kept = filter_nodes(pod, tuple(self.devices.nodes), inputs).kept
        await self.reservations.settle(pod, order, kept)
        return kept


def pod_of(uid: str, demand: DeviceDemand = FIVE) -> PodInfo:
    return PodInfo("shop", uid, uid, devices=demand)


async def test_the_third_pod_is_refused_whichever_replica_is_asked() -> None:
    store = MemoryStore()
    first, second = Replica(store), Replica(store)
    assert await first.filter("a")
    assert await second.filter("b")
    assert not await first.filter("c")
    assert not await second.filter("d")
    stored = [item.key.rpartition("/")[2] for item in (await store.read_prefix(keys.RESERVATIONS_PREFIX)).items]
    assert stored == ["a", "b"], "who was refused holds nothing"


@pytest.mark.parametrize("nodes", [2, MAX_NODES, MAX_NODES + 1, 60])
async def test_whichever_kept_node_is_taken_no_card_is_given_twice_however_many_nodes_are_kept(nodes: int) -> None:
    """Pods come faster than their binds are seen, and all go to the first node that is kept for them."""
    store = MemoryStore(lambda: 0.0)
    replicas = Replica(store, nodes), Replica(store, nodes)
    on: Counter[str] = Counter()
    waiting = [f"pod-{number}" for number in range(2 * nodes + 5)]
    while waiting:
        kept = {uid: await replicas[at % 2].filter(uid) for at, uid in enumerate(waiting)}
        bound = {uid: names[0] for uid, names in kept.items() if names}
        if not bound:
            break
        on.update(bound.values())
        assert max(on.values()) <= 2
        for replica in replicas:
            for uid, name in bound.items():
                replica.devices.bind(uid, name)
        waiting = [uid for uid in waiting if uid not in bound]
    assert on == dict.fromkeys(replicas[0].devices.nodes, 2)
    assert len(waiting) == 5


async def test_a_pod_counts_one_that_is_still_being_decided_on_elsewhere() -> None:
    store = MemoryStore()
    first, second = Replica(store), Replica(store)
    asked = [pod_of(uid) for uid in ("a", "b")]
    for replica, pod in zip((first, second), asked, strict=True):
        _, order = await replica.reservations.reserve(pod, replica.inputs())
        assert order
    assert not await first.filter("c")


async def test_a_reservation_counts_however_much_was_written_since() -> None:
    store = MemoryStore()
    one = Replica(store, MAX_NODES + 1)
    for uid in ("a", "b"):
        assert await one.filter(uid)
    for _ in range(500):
        await store.write([Put("/leadsman/v1/nodes/edge-0/heartbeat", b"{}")])
    assert not await one.filter("c")


async def test_a_pod_that_ended_is_released() -> None:
    one = Replica(MemoryStore())
    for uid in "abb":
        assert await one.filter(uid), "a pod that is asked about again does not stand in its own way"
    one.devices.ended = frozenset("a")
    assert await one.filter("c")


async def test_a_reservation_ends_by_itself() -> None:
    clock = [0.0]
    store = MemoryStore(lambda: clock[0])
    one = Replica(store, clock=clock)
    assert await one.filter("a")
    assert await one.filter("b")
    clock[0] = RESERVED_SECONDS - 1.0
    assert not await one.filter("c")
    clock[0] = RESERVED_SECONDS + LEASE_REUSE_SECONDS + 1.0
    assert await one.filter("c")


async def test_without_the_store_such_pods_are_refused_with_the_reason_and_others_are_not() -> None:
    store = MemoryStore()
    store.fail(Unavailable("etcd is away"))
    one = Replica(store)
    assert not await one.filter("a")
    assert await one.filter("plain", DeviceDemand())
    assert await one.filter("whole", DeviceDemand(({I915: 1},)))
    store.heal()
    assert await one.filter("a")


async def test_a_pod_that_is_refused_as_others_cannot_be_read_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = MemoryStore(), AsyncMock(side_effect=Unavailable("no leader"))
    with monkeypatch.context() as patched:
        patched.setattr(store, "read_prefix", read)
        assert not await Replica(store).filter("a")
    assert not (await store.read_prefix(keys.RESERVATIONS_PREFIX)).items


async def test_a_pod_that_asks_for_more_than_a_reservation_holds_is_told_so_and_no_fault_of_etcd_is() -> None:
    one, pod = Replica(MemoryStore()), pod_of("a", DeviceDemand(({I915: 1, MEMORY: 5},) * 200))
    inputs, order = await one.reservations.reserve(pod, one.inputs())
    (refusal,) = filter_nodes(pod, tuple(one.devices.nodes), inputs).refused.values()
    assert "larger than 4096 bytes" in refusal.reason
    assert (order, one.reservations.failures) == (0, 0)


async def test_a_slow_store_costs_no_more_than_its_timeout() -> None:
    class Hanging(MemoryStore):
        async def read_prefix(self, prefix: str) -> Listing:
            await asyncio.Event().wait()
            raise AssertionError

    one = Replica(Hanging())
    one.reservations = DeviceReservations(Hanging(), cast("Any", one.devices), 0.01)
    assert not await one.filter("a")


async def test_a_change_of_the_nodes_is_waited_for_and_not_too_often() -> None:
    one = Replica(MemoryStore(), clock=[0.0])
    inputs = DecisionInputs(Snapshot(), Policy(), 0.0, devices=one.devices.current)
    waiting = asyncio.create_task(one.reservations.wait_for_change(inputs))
    await asyncio.sleep(0)
    one.devices.bind("a", "edge-0")
    assert await waiting
    one.clock[0] = 0.0
    assert await one.reservations.wait_for_change(inputs)
    assert not await one.reservations.wait_for_change(inputs), "twice a second"


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), st.booleans()), max_size=12), st.integers(0, 10**6))
def test_replicas_that_run_at_once_never_promise_more_than_there_is(
    steps: list[tuple[int, int, bool]], seed: int
) -> None:
    """Pods are asked about at two replicas, in any order and at once; each sees binds when it does. Whatever
    kube-scheduler takes of the answers, two cards hold two pods of 5."""

    async def run() -> None:
        store = MemoryStore()
        replicas = Replica(store), Replica(store)
        bound: list[str] = []
        for start, (number, pods, seen) in enumerate(steps):
            uids = [f"pod-{start}-{each}" for each in range(pods)]
            asked = [replicas[(number + each) % 2].filter(uid) for each, uid in enumerate(uids)]
            answers = await asyncio.gather(*asked)
            bound += [uid for uid, kept in zip(uids, answers, strict=True) if kept]
            assert len(bound) <= 2
            if seen:
                for uid, replica in itertools.product(bound, replicas[: 1 + number]):
                    if not replica.devices.is_settled(uid):
                        replica.devices.bind(uid, "edge-0")

    asyncio.run(run())
