"""One node's prefix, and too many nodes, cost a reader no more than the limits say."""

from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.state import keys
from leadsman.state.follower import RELIST_DROPPED_SECONDS, Follower, node_pages, slices_by_revision
from leadsman.state.records import Heartbeat, Reward, encode_record
from leadsman.state.snapshot import NodeLimits, Snapshot
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import Delete, Deleted, Listing, Put, Updated
from tests.leadsman.state.conftest import snapshot_from_listing
from tests.memory_store import MemoryStore
from tests.testbed.background import running
from tests.waiting import until

LIMITS = NodeLimits(pod_types=3, nodes=4)
REWARD = encode_record(Reward(0.0))


def reward(number: int, revision: int, node: str = "a", value: bytes = REWARD) -> Updated:
    return Updated(keys.reward_key(node, f"type-{number}"), value, revision)


def beat(revision: int, node: str = "a") -> Updated:
    return Updated(keys.record_key(node, Heartbeat), encode_record(Heartbeat(1, revision, 5.0)), revision)


def applied(*changes: Updated | Deleted, before: Snapshot | None = None) -> Snapshot:
    return apply_changes(before or Snapshot(), changes, 0.0, limits=LIMITS)


def types_of(snapshot: Snapshot, node: str = "a") -> list[str]:
    return sorted(pod_type for pod_type, nodes in snapshot.rewards.items() if node in nodes)


def test_of_too_many_rewards_the_first_are_kept_and_the_rest_of_the_node_is_untouched() -> None:
    snapshot = applied(*(reward(number, number + 1) for number in range(9)), beat(10))
    assert types_of(snapshot) == ["type-0", "type-1", "type-2"]
    assert snapshot.nodes["a"].heartbeat is not None
    assert (snapshot.usage["a"].dropped, snapshot.dropped, snapshot.crowded_nodes) == (6, 6, 1)


def test_a_node_of_which_everything_was_deleted_has_no_problem_left() -> None:
    before = applied(*(reward(number, number + 1) for number in range(9)))
    after = applied(*(Deleted(keys.reward_key("a", f"type-{number}"), 20) for number in range(9)), before=before)
    assert (after.problems, after.usage, after.dropped) == ({}, {}, 6)


def test_of_too_many_unreadable_records_some_are_named_and_all_are_counted() -> None:
    snapshot = applied(*(reward(number, number + 1, value=b"?") for number in range(9)))
    assert sorted(snapshot.problems) == [
        "/leadsman/v1/nodes/a/",
        "/leadsman/v1/nodes/a/rewards/type-0",
        "/leadsman/v1/nodes/a/rewards/type-1",
        "/leadsman/v1/nodes/a/rewards/type-2",
    ]
    assert snapshot.dropped == 6


def test_nodes_beyond_the_limit_are_ignored_and_those_that_are_there_stay() -> None:
    snapshot = applied(*(beat(number + 1, f"n{number}") for number in range(9)), beat(20, "n0"))
    assert sorted(snapshot.nodes) == ["n0", "n1", "n2", "n3"]
    assert "more than 4 nodes" in snapshot.problems[keys.NODES_PREFIX]
    assert snapshot.dropped == 5


KEYS = st.tuples(st.sampled_from("abcdefg"), st.integers(0, 6), st.sampled_from([REWARD, b"?", None]))


@given(st.lists(KEYS, max_size=60), st.integers(1, 9))
def test_usage_is_what_is_there_and_within_the_limits(writes: list[tuple[str, int, bytes | None]], cut: int) -> None:
    """However the changes are cut into batches."""
    changes = [
        Deleted(keys.reward_key(node, f"type-{number}"), revision)
        if value is None
        else reward(number, revision, node, value)
        for revision, (node, number, value) in enumerate(writes, 1)
    ]
    snapshot = Snapshot()
    for start in range(0, len(changes), cut):
        snapshot = applied(*changes[start : start + cut], before=snapshot)
    for node, usage in snapshot.usage.items():
        named = [key for key in snapshot.problems if key.startswith(keys.rewards_prefix(node))]
        assert usage.pod_types == len(types_of(snapshot, node)) + len(named) <= LIMITS.pod_types
    assert len(snapshot.usage) <= LIMITS.nodes


def test_slices_never_split_a_transaction() -> None:
    changes = [beat(revision) for revision in (1, 1, 1, 2, 3, 3, 4)]
    assert [[c.mod_revision for c in each] for each in slices_by_revision(changes, 2)] == [[1, 1, 1], [2, 3, 3], [4]]


async def test_without_junk_a_listing_by_pages_is_the_listing() -> None:
    store = MemoryStore()
    nodes = [f"n{number}" for number in range(400)]
    for node in nodes:
        await store.write([Put(beat(1, node).key, beat(1, node).value), Put(keys.counted_totals_key(node, "0"), b"")])
        await store.write([Put(keys.reward_key(node, f"type-{number}"), REWARD) for number in range(4)])
    whole = await store.read_prefix(keys.NODES_PREFIX)
    async with aclosing(node_pages(store, keys.NODES_PREFIX)) as pages:
        read = [page async for page in pages]
    paged = Listing(tuple(item for page in read for item in page.items), read[-1].revision, read[-1].cluster_id)
    assert snapshot_from_listing(Snapshot(), paged) == snapshot_from_listing(Snapshot(), whole)


async def test_what_was_dropped_is_listed_again_when_there_may_be_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.memory_store.PROGRESS_INTERVAL_SECONDS", 0.01)
    store, now = MemoryStore(), [100.0]
    follower = Follower(store, clock=lambda: now[0], limits=LIMITS)
    async with running(follower.run()):
        await until(follower.loaded.is_set)
        await store.write([Put(reward(number, 0).key, REWARD) for number in range(5)])
        await until(lambda: follower.current.dropped == 2)
        await store.write([Delete(reward(number, 0).key) for number in range(2)])
        now[0] += RELIST_DROPPED_SECONDS + 1
        await until(lambda: follower.relists == 2)
    assert (types_of(follower.current), follower.current.problems) == (["type-2", "type-3", "type-4"], {})
