"""Claims and reports, on the verified memory store with a clock of our own."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from agent.liveness import LoopLiveness
from agent.node_ownership import NodeAlreadyOwned, claim_node
from agent.reporting import (
    MAX_BACKOFF_SECONDS,
    NodeRecords,
    Reporter,
)
from leadsman.state import codec, keys
from leadsman.state.key_values import Put, StoredItem
from leadsman.state.memory_store import MemoryStore
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Identity, Latency, PeerLatency, RingEntry
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import OutOfSpace, PreconditionFailed, StoreError, Unavailable

NODE = "edge-1"


class World:
    """One store, a clock that only `sleep` moves, and what the agent would measure."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.said: dict[type[AnyRecord], AnyRecord | None] = {Latency: Latency({}), Hardware: Hardware({"load1": 1.0})}
        self.rounds = 0
        self.timing = ReportTiming()
        self.slept: list[float] = []

    def reporter(self, owner: str = "uid-1", sleep: Callable[[float], Awaitable[None]] | None = None) -> Reporter:
        progress = LoopLiveness({"probes": lambda: self.rounds}, 15.0, lambda: self.now)
        wanted = Identity(owner, 0, "10.0.0.1", "zone-a")
        return Reporter(
            self.store, NODE, wanted, lambda: self.timing, self.records, progress, Random(1), sleep or self.sleep
        )

    def records(self) -> NodeRecords:
        return self.said

    async def sleep(self, seconds: float) -> None:
        assert len(self.slept) < 1000, "waits without end"
        self.slept.append(seconds)
        self.now += seconds

    async def stored(self) -> dict[type[AnyRecord], AnyRecord]:
        listing = await self.store.read_prefix(keys.node_prefix(NODE))
        kinds = {item.key: keys.RECORD_BY_KIND[item.key.rpartition("/")[2]] for item in listing.items}
        return {kinds[item.key]: codec.decode(kinds[item.key], item.value) for item in listing.items}

    async def revisions(self) -> dict[str, int]:
        listing = await self.store.read_prefix(keys.node_prefix(NODE))
        return {item.key.rpartition("/")[2]: item.mod_revision for item in listing.items}


@pytest.fixture
def world() -> World:
    return World()


async def test_a_report_puts_all_records_in_one_transaction_under_the_lease(world: World) -> None:
    await world.reporter().report()
    stored, revisions = await world.stored(), await world.revisions()
    assert stored.keys() == {Identity, Heartbeat, Latency, Hardware}
    assert revisions["latency"] == revisions["hardware"] == revisions["heartbeat"]
    world.now += ReportTiming().lease_seconds + 1
    assert await world.stored() == {}


async def test_unchanged_records_are_not_written_again_and_the_heartbeat_is(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    before = await world.revisions()
    world.said[Hardware] = Hardware({"load1": 1.05})
    await reporter.report()
    after = await world.revisions()
    assert {kind for kind in after if after[kind] != before[kind]} == {"heartbeat"}
    world.said[Hardware] = Hardware({"load1": 2.0})
    await reporter.report()
    assert (await world.stored())[Hardware] == Hardware({"load1": 2.0})


async def test_the_heartbeat_changes_with_every_report(world: World) -> None:
    reporter, seen = world.reporter(), []
    for _ in range(3):
        await reporter.report()
        beat = (await world.stored())[Heartbeat]
        assert isinstance(beat, Heartbeat)
        seen.append((beat.epoch, beat.seq))
    assert seen == sorted(set(seen))


async def test_what_is_not_known_any_more_goes(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    world.said[Hardware] = None
    await reporter.report()
    assert Hardware not in await world.stored()


async def test_after_a_failed_write_everything_is_said_again(world: World) -> None:
    """The write may have been done: comparing with what was said before it would keep a value that is not so."""
    reporter = world.reporter()
    await reporter.report()
    before = await world.revisions()
    world.store.fail(Unavailable("no answer"))
    with pytest.raises(Unavailable):
        await reporter.report()
    world.store.heal()
    await reporter.report()
    assert (await world.revisions())["hardware"] > before["hardware"]


async def test_a_write_that_etcd_does_after_its_time_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of etcd that hangs keeps the request, and the next report goes to another member."""
    reporter = world.reporter()
    await reporter.report()
    late: list[Callable[[], Awaitable[int]]] = []
    write = world.store.write

    async def hang(*arguments: Any) -> int:
        late.append(lambda: write(*arguments))
        raise Unavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "write", hang)
        with pytest.raises(Unavailable):
            await reporter.report()
    await reporter.report()
    newest = await world.revisions()
    with pytest.raises(PreconditionFailed):
        await late[0]()
    assert await world.revisions() == newest


async def test_what_went_while_a_write_failed_is_deleted_afterwards(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    world.store.fail(Unavailable("no answer"))
    with pytest.raises(Unavailable):
        await reporter.report()
    world.store.heal()
    world.said[Hardware] = None
    await reporter.report()
    assert Hardware not in await world.stored()


async def test_a_stalled_loop_lets_the_node_go_stale_and_vanish(world: World) -> None:
    reporter = world.reporter()
    world.rounds = 1
    await reporter.report()
    before = await world.revisions()
    world.now += 16
    await reporter.report()
    assert await world.revisions() == before
    world.now += 5
    assert await world.stored() == {}


async def test_a_lost_lease_is_claimed_again_with_a_larger_epoch(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    first = (await world.stored())[Identity]
    world.now += 21
    world.rounds += 1
    with pytest.raises(StoreError):
        await reporter.report()
    await reporter.report()
    stored = await world.stored()
    assert stored.keys() == {Identity, Heartbeat, Latency, Hardware}
    assert isinstance(first, Identity)
    assert isinstance(stored[Identity], Identity)
    assert stored[Identity].epoch > first.epoch


async def test_a_restarted_container_of_the_same_pod_claims_at_once(world: World) -> None:
    await world.reporter().report()
    first = (await world.stored())[Identity]
    await world.reporter().report()
    second = (await world.stored())[Identity]
    assert isinstance(first, Identity)
    assert isinstance(second, Identity)
    assert second.epoch > first.epoch
    assert world.slept == []


async def test_a_second_agent_waits_one_lease_and_then_gives_up(world: World) -> None:
    holder = world.reporter("uid-1")
    await holder.report()

    async def sleep(seconds: float) -> None:
        await world.sleep(seconds)
        world.rounds += 1
        await holder.report()

    with pytest.raises(NodeAlreadyOwned, match=r"owner uid-1\) owns the records of node edge-1; this agent is uid-2"):
        await world.reporter("uid-2", sleep).run()
    assert ReportTiming().lease_seconds <= world.now <= ReportTiming().lease_seconds + 10
    assert holder.ownership is not None


async def test_a_second_agent_takes_over_when_the_lease_of_a_killed_one_ends(world: World) -> None:
    await world.reporter("uid-1").report()
    reporter = world.reporter("uid-2")
    await reporter.report()
    stored = (await world.stored())[Identity]
    assert isinstance(stored, Identity)
    assert stored.owner == "uid-2"
    assert world.now <= ReportTiming().lease_seconds + 2


def renewing(world: World, lease: int) -> Callable[[float], Awaitable[None]]:
    """A sleep during which somebody, who need not be its owner, renews the lease."""

    async def sleep(seconds: float) -> None:
        await world.sleep(seconds)
        await world.store.keep_alive(lease)

    return sleep


async def test_a_lease_that_another_process_renews_for_a_dead_agent_holds_its_node_no_longer_than_it_lasts(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """etcd lets everybody renew a lease, also when it is locked."""
    dead = world.reporter("uid-1")
    await dead.report()
    assert dead.ownership is not None
    reporter = world.reporter("uid-2", renewing(world, dead.ownership.lease))
    await reporter.report()
    assert reporter.ownership is not None
    assert (await world.stored())[Identity] == reporter.ownership.identity
    assert "without a heartbeat" in caplog.text
    assert ReportTiming().lease_seconds <= world.now <= ReportTiming().lease_seconds + 2
    world.rounds += 1
    with pytest.raises(PreconditionFailed):
        await dead.report()


async def test_an_agent_that_reports_more_seldom_than_another_one_s_lease_lasts_keeps_its_node(world: World) -> None:
    world.timing = ReportTiming(push_interval_seconds=60.0)
    holder = world.reporter("uid-1")
    await holder.report()
    assert holder.ownership is not None
    world.timing = ReportTiming()
    reporter = world.reporter("uid-2", renewing(world, holder.ownership.lease))
    with pytest.raises(NodeAlreadyOwned, match="uid-1"):
        await reporter.report()


async def test_two_agents_never_write_one_node(world: World) -> None:
    """A frozen agent that wakes after another has claimed its node writes nothing."""
    frozen = world.reporter("uid-1")
    await frozen.report()
    world.now += 21
    await world.reporter("uid-2").report()
    before = await world.revisions()
    world.rounds += 1
    with pytest.raises(StoreError):
        await frozen.report()
    assert await world.revisions() == before


async def test_a_report_is_not_written_over_another_owner_though_the_lease_lives(world: World) -> None:
    reporter = world.reporter("uid-1")
    await reporter.report()
    await world.store.write([Put(keys.record_key(NODE, Identity), codec.encode(Identity("uid-2", 9, "10.0.0.2")))])
    before = await world.revisions()
    with pytest.raises(PreconditionFailed):
        await reporter.report()
    assert await world.revisions() == before


async def test_of_two_claims_at_the_same_moment_one_wins(world: World) -> None:
    class Slow(MemoryStore):
        """Its reader is overtaken between reading and claiming."""

        async def grant(self, ttl_seconds: int) -> int:
            if await super().grant(ttl_seconds) == 1:
                await claim_node(self, NODE, Identity("uid-2", 0, "10.0.0.2"), ttl_seconds)
            return await super().grant(ttl_seconds)

    with pytest.raises(NodeAlreadyOwned, match="at the same moment"):
        await claim_node(Slow(clock=lambda: 0.0), NODE, Identity("uid-1", 0, "10.0.0.1"), 20)


async def test_an_unreadable_identity_under_a_lease_is_somebody_elses(world: World) -> None:
    await world.store.write([Put(keys.record_key(NODE, Identity), b"\xff")], await world.store.grant(60))
    with pytest.raises(NodeAlreadyOwned, match="unknown"):
        await claim_node(world.store, NODE, Identity("uid-1", 0, "10.0.0.1"), 20)


async def test_a_clean_stop_takes_the_records_along(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    await reporter.close()
    assert await world.stored() == {}


async def test_a_longer_interval_comes_with_a_longer_lease(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    world.timing = ReportTiming(push_interval_seconds=25.0)
    await reporter.report()
    world.now += 60
    assert (await world.stored()).keys() == {Identity, Heartbeat, Latency, Hardware}


async def test_failures_back_off_with_full_jitter(world: World) -> None:
    waits = await waits_after(Unavailable("down"), world)
    assert max(waits) <= MAX_BACKOFF_SECONDS
    assert max(waits) > 0.9 * MAX_BACKOFF_SECONDS
    assert min(waits) < 0.1 * MAX_BACKOFF_SECONDS


async def test_a_full_store_is_asked_at_the_rate_of_reports(world: World) -> None:
    """No storm while it is full, and within the promise once it has room: docs/operating.md."""
    waits = await waits_after(OutOfSpace("full"), world)
    push_interval_seconds = world.timing.push_interval_seconds
    assert min(waits) >= 0.9 * push_interval_seconds
    assert max(waits) <= 1.1 * push_interval_seconds


async def waits_after(failure: StoreError, world: World) -> list[float]:
    async def sleep(seconds: float) -> None:
        await world.sleep(seconds)
        if len(world.slept) > 300:
            raise asyncio.CancelledError

    world.store.fail(failure)
    world.rounds = 1
    reporter = world.reporter(sleep=sleep)
    reporter._liveness.limit_seconds = 1e9
    with pytest.raises(asyncio.CancelledError):
        await reporter.run()
    assert reporter.failures[type(failure).__name__] == 300
    return world.slept[20:]


async def test_reports_are_spread_around_the_interval_and_start_within_it(world: World) -> None:
    async def sleep(seconds: float) -> None:
        await world.sleep(seconds)
        world.rounds += 1
        if len(world.slept) > 50:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await world.reporter(sleep=sleep).run()
    assert 0 <= world.slept[0] <= 5
    assert all(4.5 <= wait <= 5.5 for wait in world.slept[1:])


async def test_the_place_on_the_ring_is_taken_in_the_claims_own_transaction_and_goes_with_the_lease(
    world: World,
) -> None:
    entry = RingEntry("10.0.0.1", "zone-a")
    held = await claim_node(world.store, NODE, Identity("uid-1", 0, "10.0.0.1"), 20, entry)
    items = {item.key: item for prefix in (keys.RING_PREFIX, keys.NODES_PREFIX) for item in await listed(world, prefix)}
    ring, identity = items[keys.record_key(NODE, RingEntry)], items[keys.record_key(NODE, Identity)]
    assert codec.decode(RingEntry, ring.value) == entry
    assert ring.mod_revision == identity.mod_revision
    await world.store.revoke(held.lease)
    assert await listed(world, keys.RING_PREFIX) == ()


async def test_the_loser_of_a_claim_does_not_take_the_place_on_the_ring(world: World) -> None:
    await claim_node(world.store, NODE, Identity("uid-1", 0, "10.0.0.1"), 20, RingEntry("10.0.0.1"))
    with pytest.raises(NodeAlreadyOwned):
        await claim_node(world.store, NODE, Identity("uid-2", 0, "10.0.0.2"), 20, RingEntry("10.0.0.2"))
    (item,) = await listed(world, keys.RING_PREFIX)
    assert codec.decode(RingEntry, item.value).address == "10.0.0.1"


async def test_where_the_ring_is_not_used_nothing_stands_on_it(world: World) -> None:
    await world.reporter().report()
    assert await listed(world, keys.RING_PREFIX) == ()


async def test_a_reporter_claims_with_the_entry_that_it_reports(world: World) -> None:
    world.said[RingEntry] = RingEntry("10.0.0.1", near=("edge-2",))
    await world.reporter().report()
    (item,) = await listed(world, keys.RING_PREFIX)
    assert codec.decode(RingEntry, item.value).near == ("edge-2",)


async def listed(world: World, prefix: str) -> tuple[StoredItem, ...]:
    return (await world.store.read_prefix(prefix)).items


async def test_latency_of_peers_is_reported_as_measured(world: World) -> None:
    windows = {"edge-2": PeerLatency(30, 29, 12.1, 12.9, 12.0, 0.1, 0.4)}
    world.said[Latency] = Latency(windows)
    await world.reporter().report()
    assert (await world.stored())[Latency] == Latency(windows)
