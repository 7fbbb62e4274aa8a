"""Binds to this node that failed, as the extender told them: each counted once, whichever process is killed when."""

import pytest

from agent.pods.incident_ledger import IncidentLedger
from agent.pods.reward_persistence import MAX_LISTED, MAX_UNSAVED, BindFailureCounter, RewardPersistence
from leadsman.state import keys
from leadsman.state.records import BindFailure, encode_record
from leadsman.state.store import Put
from tests.agent.pods.given import NODE, World


class BindWorld(World):
    async def counting_agent(self) -> tuple[RewardPersistence, IncidentLedger, BindFailureCounter]:
        return *await self.agent(), BindFailureCounter(self.store, NODE)

    async def tell(self, uid: str, value: bytes = b"", node: str = NODE) -> None:
        failure = encode_record(BindFailure("web", "bind_refused"))
        await self.store.write([Put(keys.bind_failure_key(node, uid), value or failure)])

    async def waiting(self) -> int:
        return len((await self.store.read_prefix(keys.bind_failures_prefix(NODE))).items)


@pytest.fixture
def world() -> BindWorld:
    return BindWorld()


async def test_each_is_counted_once_and_goes_with_the_reward_it_changed(world: BindWorld) -> None:
    persistence, ledger, binds = await world.counting_agent()
    await world.tell("uid-1")
    await world.tell("uid-2")
    await world.tell("uid-3", node="edge-2")
    for _ in range(3):
        await binds.poll(ledger)
    assert ledger.rewards["web"].incidents == {"bind_refused": 2}
    assert await world.waiting() == 2
    await persistence.save(ledger)
    assert await world.waiting() == 0
    await binds.poll(ledger)
    assert ledger.counted_bind_failures == {}
    assert ledger.rewards["web"].incidents == {"bind_refused": 2}


async def test_an_agent_killed_before_it_wrote_leaves_them_to_the_next(world: BindWorld) -> None:
    _, ledger, binds = await world.counting_agent()
    await world.tell("uid-1")
    await binds.poll(ledger)
    persistence, after, binds = await world.counting_agent()
    assert after.rewards == {}
    await binds.poll(after)
    await persistence.save(after)
    _, last, binds = await world.counting_agent()
    await binds.poll(last)
    assert last.rewards["web"].incidents == {"bind_refused": 1}


async def test_garbage_is_left_out_and_the_rest_counted(world: BindWorld) -> None:
    _, ledger, binds = await world.counting_agent()
    await world.tell("uid-1", b"garbage")
    await world.tell("uid-2", encode_record(BindFailure("web", "moonlight")))
    await world.tell("uid-3", encode_record(BindFailure("a/b", "bind_refused")))
    await world.tell("uid-4")
    await binds.poll(ledger)
    assert {name: reward.incidents for name, reward in ledger.rewards.items()} == {"web": {"bind_refused": 1}}


async def test_of_too_many_records_the_first_are_read_and_that_is_said_once(
    world: BindWorld, caplog: pytest.LogCaptureFixture
) -> None:
    _, ledger, binds = await world.counting_agent()
    for number in range(MAX_LISTED + 40):
        await world.tell(f"uid-{number:03}")
    for _ in range(2):
        await binds.poll(ledger)
    assert sorted(ledger.counted_bind_failures)[-1].endswith(f"uid-{MAX_UNSAVED - 1:03}")
    said = [record.getMessage() for record in caplog.records if "ignores the others" in record.getMessage()]
    assert [keys.bind_failures_prefix(NODE) in each for each in said] == [True]


async def test_every_one_is_counted_once_however_many_there_are(world: BindWorld) -> None:
    persistence, ledger, binds = await world.counting_agent()
    count = MAX_LISTED + 40
    for number in range(count):
        await world.tell(f"uid-{number:03}")
    for _ in range(count // MAX_UNSAVED + 2):
        await binds.poll(ledger)
        await persistence.save(ledger)
    assert ledger.rewards["web"].incidents == {"bind_refused": count}
    assert await world.waiting() == 0
