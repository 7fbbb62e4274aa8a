"""The rewards' cache, on the verified memory store: what is written, what the next agent finds, and who may write."""

from random import Random

import pytest

from agent.node_ownership import NodeOwnership, claim_node
from agent.pods.incident_ledger import IncidentLedger, LedgerLimits
from agent.pods.reward_persistence import RewardPersistence
from leadsman.kube.decoding import decode_json
from leadsman.kube.objects import Pod
from leadsman.state import keys
from leadsman.state.key_values import Put
from leadsman.state.memory_store import MemoryStore
from leadsman.state.records import Identity
from leadsman.state.store import Unavailable

NODE = "edge-1"


def pod(restarts: int, name: str = "shop", uid: str = "uid-1") -> Pod:
    body = f"""{{"metadata": {{"name": "x", "namespace": "d", "uid": "{uid}", "labels": {{"app": "{name}"}}}},
      "spec": {{"nodeName": "edge-1"}}, "status": {{"phase": "Running", "containerStatuses": [{{"name": "app",
      "ready": true, "restartCount": {restarts}, "state": {{"running": {{"startedAt": "2026-03-01T12:00:00Z"}}}},
      "lastState": {{"terminated": {{"exitCode": 1}}}}}}]}}}}"""
    return decode_json(body.encode(), Pod)


class World:
    def __init__(self) -> None:
        self.now, self.store = 0.0, MemoryStore(clock=lambda: self.now)
        self.held: NodeOwnership | None = None

    async def agent(
        self,
        owner: str = "a",
        limits: LedgerLimits = LedgerLimits(),  # noqa: B008
    ) -> tuple[RewardPersistence, IncidentLedger]:
        """A new process: its claim, its cache, and the book that it opens."""
        self.held = await claim_node(self.store, NODE, Identity(owner, 0, "10.0.0.1"), 20)
        cache = RewardPersistence(self.store, NODE, lambda: self.held, Random(1))
        book = IncidentLedger(await cache.restore(), lambda: self.now, lambda: 1_772_366_400.0 + self.now, limits)
        return cache, book

    async def stored(self) -> dict[str, int]:
        items = (await self.store.read_prefix(keys.node_prefix(NODE))).items
        return {item.key.removeprefix(keys.node_prefix(NODE)): item.mod_revision for item in items}


@pytest.fixture
def world() -> World:
    return World()


async def test_a_reward_and_what_was_counted_for_it_are_one_transaction(world):
    cache, book = await world.agent()
    book.on_first_list([])
    book.on_pod_updated(pod(2))
    await cache.save(book)
    stored = await world.stored()
    counted = {key: revision for key, revision in stored.items() if key.startswith("counted/")}
    assert set(counted.values()) == {stored["rewards/shop"]}


async def test_the_next_agent_goes_on_where_the_last_one_was_killed(world):
    cache, book = await world.agent()
    book.on_first_list([])
    book.on_pod_updated(pod(2))
    await cache.save(book)
    book.on_pod_updated(pod(3))  # observed, and killed before it was written
    _, after = await world.agent()
    after.on_first_list([pod(4)])
    after.on_pod_updated(pod(4))
    assert after.rewards["shop"].incidents == {"crash": 4}


async def test_rewards_outlive_the_lease(world):
    cache, book = await world.agent()
    book.on_first_list([])
    book.on_pod_updated(pod(1))
    await cache.save(book)
    world.now += 60
    assert "rewards/shop" in await world.stored()
    assert "identity" not in await world.stored()


async def test_a_first_agent_leaves_a_sign_even_when_nothing_happened(world):
    cache, book = await world.agent()
    book.on_first_list([])
    await cache.save(book)
    _, after = await world.agent()
    after.on_first_list([pod(1)])
    after.on_pod_updated(pod(1))
    assert after.rewards["shop"].incidents == {"crash": 1}


async def test_what_could_not_be_written_is_written_later(world):
    cache, book = await world.agent()
    book.on_first_list([])
    book.on_pod_updated(pod(1))
    world.store.fail(Unavailable("down"))
    await cache.save(book)
    assert "down" in cache.problem.text
    world.store.heal()
    await cache.save(book)
    assert {"rewards/shop", "counted/0"} <= set(await world.stored())
    assert cache.problem.text == ""


async def test_nothing_is_written_that_did_not_move(world):
    cache, book = await world.agent()
    book.on_first_list([])
    book.on_pod_updated(pod(1))
    await cache.save(book)
    before = await world.stored()
    world.now += 600  # fades, and every reader knows
    await cache.save(book)
    assert {k: v for k, v in (await world.stored()).items() if k in before} == {
        k: v for k, v in before.items() if k != "identity"
    }


async def test_health_is_written_once_it_moved(world):
    cache, book = await world.agent()
    book.on_first_list([])
    book.on_pod_updated(pod(0))
    world.now += 10
    book.credit_health()
    await cache.save(book)
    assert "rewards/shop" not in await world.stored()
    world.now += 5
    world.held = await claim_node(world.store, NODE, Identity("a", 0, "10.0.0.1"), 20)
    world.now += 15
    book.credit_health()
    await cache.save(book)
    assert "rewards/shop" in await world.stored()


async def test_without_the_claim_nothing_is_written(world):
    cache, book = await world.agent()
    book.on_first_list([])
    book.on_pod_updated(pod(1))
    held, world.held = world.held, None
    await cache.save(book)
    assert "rewards/shop" not in await world.stored()
    world.held, world.now = held, world.now + 60  # another agent took the node meanwhile
    await claim_node(world.store, NODE, Identity("b", 0, "10.0.0.2"), 20)
    await cache.save(book)
    assert "rewards/shop" not in await world.stored()
    assert "PreconditionFailed" in cache.problem.text


async def test_a_type_that_had_to_go_is_deleted(world):
    cache, book = await world.agent(limits=LedgerLimits(most_types=1))
    book.on_first_list([])
    book.on_pod_updated(pod(1, "old"))
    book.on_pod_deleted(pod(1, "old"))
    await cache.save(book)
    book.on_pod_updated(pod(1, "new", "uid-2"))
    await cache.save(book)
    assert {key for key in await world.stored() if key.startswith("rewards/")} == {"rewards/new"}


async def test_a_reward_that_cannot_be_read_begins_anew(world, caplog):
    cache, book = await world.agent()
    book.on_first_list([])
    book.on_pod_updated(pod(1))
    await cache.save(book)
    await world.store.write([Put(keys.reward_key(NODE, "shop"), b"garbage")])
    _, after = await world.agent()
    assert after.rewards == {}
    assert f"cannot decode the value under {keys.reward_key(NODE, 'shop')}" in caplog.text


async def test_totals_that_cannot_be_read_count_as_none_and_are_logged(world, caplog):
    cache, book = await world.agent()
    book.on_first_list([])
    await cache.save(book)
    await world.store.write([Put(keys.counted_totals_key(NODE, "0"), b'{"v":2,"pods":{}}')])
    _, after = await world.agent()
    after.on_first_list([])
    after.on_pod_updated(pod(2))
    assert after.rewards["shop"].incidents == {"crash": 2}
    assert f"cannot decode the value under {keys.counted_totals_key(NODE, '0')}" in caplog.text
