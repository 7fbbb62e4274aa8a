"""Whose a node is: one agent writes it, until its lease is over. On the verified memory store."""

import pytest
from msgspec import structs

from agent.node_ownership import NodeAlreadyOwned, claim_node
from agent.quarantine import after_overrun, is_over
from leadsman.state import keys
from leadsman.state.records import Identity, RingEntry, decode_record, encode_record
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import PreconditionFailed, Put, StoredItem, StoreError
from tests.agent.conftest import NODE, World


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


async def test_a_zone_that_is_found_later_is_claimed_with_the_next_report(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    reporter.identity = structs.replace(reporter.identity, zone="north")
    await reporter.report()
    assert isinstance(stored := (await world.stored())[Identity], Identity)
    assert stored.zone == "north"


async def test_two_agents_never_write_one_node(world: World) -> None:
    """A frozen agent that wakes after another has claimed its node writes nothing."""
    frozen = world.reporter("uid-1")
    await frozen.report()
    world.now += 31
    await world.reporter("uid-2").report()
    before = await world.revisions()
    world.rounds += 1
    with pytest.raises(StoreError):
        await frozen.report()
    assert await world.revisions() == before


async def test_a_report_is_not_written_over_another_owner_though_the_lease_lives(world: World) -> None:
    reporter = world.reporter("uid-1")
    await reporter.report()
    await world.store.write([Put(keys.record_key(NODE, Identity), encode_record(Identity("uid-2", 9, "10.0.0.2")))])
    before = await world.revisions()
    with pytest.raises(PreconditionFailed):
        await reporter.report()
    assert await world.revisions() == before


async def test_the_place_on_the_ring_is_taken_in_the_claims_own_transaction_and_goes_with_the_lease(
    world: World,
) -> None:
    entry = RingEntry("10.0.0.1")
    held = await claim_node(world.store, NODE, Identity("uid-1", 0, "10.0.0.1"), 20, entry)
    items = {item.key: item for prefix in (keys.RING_PREFIX, keys.NODES_PREFIX) for item in await listed(world, prefix)}
    ring, identity = items[keys.record_key(NODE, RingEntry)], items[keys.record_key(NODE, Identity)]
    assert decode_record(RingEntry, ring.value) == entry
    assert ring.mod_revision == identity.mod_revision
    await world.store.revoke(held.lease)
    assert await listed(world, keys.RING_PREFIX) == ()


async def listed(world: World, prefix: str) -> tuple[StoredItem, ...]:
    return (await world.store.read_prefix(prefix)).items


def after(count):
    quarantine = None
    for _ in range(count):
        quarantine = after_overrun(quarantine, 0.0, 0.0)
    return quarantine


def test_pauses_double_up_to_the_longest() -> None:
    assert [after(count).not_before_seconds for count in (1, 2, 3, 4, 7, 99)] == [5, 10, 20, 40, 300, 300]


def test_over_only_after_the_pause_and_with_the_thread_back() -> None:
    quarantine = after_overrun(None, 0.0, 0.0)
    assert not is_over(quarantine, 4.9, running=False)
    assert not is_over(quarantine, 500.0, running=True)
    assert is_over(quarantine, 5.0, running=False)
