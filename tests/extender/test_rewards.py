"""Rewards over HTTP, by type and by node, and their gauges."""

import time

import pytest
from msgspec import structs

from extender.metrics import MAX_LABELLED_TYPES, reward_metrics
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.state.records import Reward
from leadsman.state.snapshot import AgedReward, Snapshot
from tests.extender.conftest import Starter

GOOD = Reward(at_seconds=0.0, healthy=30.0, recent=5.0)
BAD = Reward(at_seconds=0.0, healthy=1.0, failed=6.0, incidents={"crash": 6}, last_cause="crash")


def remembering(snapshot: Snapshot) -> Snapshot:
    now = time.monotonic()
    web = {f"node-0000{n}": AgedReward(GOOD, now) for n in range(5)} | {"node-00001": AgedReward(BAD, now)}
    return structs.replace(snapshot, rewards={"web": web, "db": {"node-00001": AgedReward(GOOD, now)}})


@pytest.fixture
async def extender(starts: Starter, measured: Snapshot):
    async with starts(remembering(measured)) as running:
        yield running


async def test_every_reward_is_there_by_type_and_by_node_the_worst_first(extender) -> None:
    found = await extender.api("/rewards")
    assert (found["rule"], found["pod_types"], found["nodes"]["items"][0]) == ("compared", ["db", "web"], "node-00001")
    worst = found["cells"][1][0]
    assert (worst["incidents"], worst["last_cause"]) == ({"crash": 6}, "crash")
    assert worst["blame_ratio"] > 0.9
    assert all(cell is None for cell in found["cells"][0][1:]), "db ran on one node alone"


def gauges(types: int) -> dict[str, list[float]]:
    now = time.monotonic()
    known = {f"type-{n}": {"a": AgedReward(structs.replace(BAD, failed=float(n)), now)} for n in range(types)}
    found = reward_metrics(DecisionInputs(Snapshot(rewards=known), Policy(), now))
    return {family.name: [sample.value for sample in family.samples] for family in found}


def test_gauges_are_bounded_and_what_is_left_out_is_counted() -> None:
    found = gauges(MAX_LABELLED_TYPES + 7)
    assert (found["leadsman_reward_types"], found["leadsman_reward_types_hidden"]) == ([MAX_LABELLED_TYPES + 7], [7])
    assert found["leadsman_reward_failures"] == [float(n) for n in range(MAX_LABELLED_TYPES + 6, 6, -1)]
