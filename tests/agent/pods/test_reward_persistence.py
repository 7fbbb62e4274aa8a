"""The ledger in etcd, on the verified memory store: what is written, what the next agent restores, who may write."""

import asyncio
from random import Random

import pytest

from agent.node_ownership import claim_node
from agent.pods.reward_persistence import RewardPersistence
from leadsman.state import keys
from leadsman.state.records import Identity, Reward, encode_record
from leadsman.state.store import Put, Unavailable
from tests.agent.pods import given
from tests.agent.pods.given import NODE, World


@pytest.fixture
def world() -> World:
    return World()


async def test_a_reward_and_what_was_counted_for_it_are_one_transaction_also_after_a_save_that_was_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    persistence, ledger = await world.agent_that_saw(2)
    with monkeypatch.context() as etcd:
        etcd.setattr(world.store, "write", lambda *_, **__: asyncio.Event().wait())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(persistence.save(ledger), 0.01)
    await persistence.save(ledger)
    stored = await world.stored()
    counted = {key: revision for key, revision in stored.items() if key.startswith("counted/")}
    assert set(counted.values()) == {stored["rewards/shop"]}


async def test_the_next_agent_goes_on_where_the_last_one_was_killed(world: World) -> None:
    persistence, ledger = await world.agent_that_saw(2)
    await persistence.save(ledger)
    ledger.on_pod_updated(given.pod("Running", given.restarted(3)))  # observed, and killed before it was written
    _, after = await world.agent()
    after.on_first_list([given.pod("Running", given.restarted(4))])
    after.on_pod_updated(given.pod("Running", given.restarted(4)))
    assert after.rewards["shop"].incidents == {"crash": 4}


async def test_what_had_no_response_is_written_under_another_claim(world: World) -> None:
    """etcd may have it still, and would otherwise put older totals over newer ones."""
    persistence, ledger = await world.agent_that_saw(1)
    world.store.fail(Unavailable("down"))
    await persistence.save(ledger)
    assert "down" in persistence.problem.text
    assert world.ownership is None
    world.store.heal()
    await world.claim()
    await persistence.save(ledger)
    assert {"rewards/shop", "counted/0"} <= set(await world.stored())
    assert persistence.problem.text == ""


async def test_without_the_claim_nothing_is_written(world: World) -> None:
    persistence, ledger = await world.agent_that_saw(1)
    ownership, world.ownership = world.ownership, None
    await persistence.save(ledger)
    assert "rewards/shop" not in await world.stored()
    world.ownership, world.now = ownership, world.now + 60  # another agent took the node meanwhile
    await claim_node(world.store, NODE, Identity("b", 0, "10.0.0.2"), 20)
    await persistence.save(ledger)
    assert "rewards/shop" not in await world.stored()
    assert "PreconditionFailed" in persistence.problem.text


async def test_what_was_counted_is_restored_although_thousands_of_rewards_stand_beside_it(world: World) -> None:
    """Of those the first in key order are read; keys beside the shards hide none of them."""
    persistence, ledger = await world.agent_that_saw(2)
    await persistence.save(ledger)
    value = encode_record(Reward(0.0, healthy=1.0))
    names = [f"type-{number:05}" for number in range(2_000)]
    await world.store.write([Put(keys.reward_key(NODE, name), value) for name in names])
    await world.store.write([Put(f"{keys.counted_totals_prefix(NODE)}!{number:05}", b"x") for number in range(2_000)])
    after = RewardPersistence(world.store, NODE, lambda: world.ownership, Random(1))
    rewards, totals, first_start = await after.restore()
    assert (len(rewards), len(totals), first_start) == (512, 1, False)


async def test_a_new_claim_in_an_etcd_that_kept_its_data_writes_nothing_again(world: World) -> None:
    persistence, ledger = await world.agent_that_saw(2)
    await persistence.save(ledger)
    before = (await world.stored())["rewards/shop"]
    await world.claim()
    await persistence.save(ledger)
    assert (await world.stored())["rewards/shop"] == before


async def test_what_an_older_backup_of_etcd_lacks_is_written_again(world: World) -> None:
    persistence, ledger = await world.agent_that_saw(2)
    await persistence.save(ledger)
    backup = (await world.store.read_prefix(keys.node_prefix(NODE))).items
    ledger.on_pod_deleted(given.pod("Failed", given.restarted(5)))
    await persistence.save(ledger)
    await world.store.write([Put(each.key, each.value) for each in backup if "identity" not in each.key])
    await world.claim()
    await persistence.save(ledger)
    _, after = await world.agent()
    assert after.rewards["shop"].incidents == {"crash": 5}
