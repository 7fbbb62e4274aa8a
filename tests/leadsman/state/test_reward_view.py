"""Rewards: where they stand, what survives their bytes, and how a reader keeps them."""

import pytest

from leadsman.state import keys
from leadsman.state.records import Heartbeat, Reward, encode_record
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import Deleted, Listing, StoredItem, Updated
from tests.leadsman.state.listed import snapshot_from_listing


def reward(failed: float = 0.0) -> Reward:
    return Reward(at_seconds=1_000.0, failed=failed)


def changed(revision: int, record: Reward, node: str = "a", pod_type: str = "web") -> Updated:
    return Updated(keys.reward_key(node, pod_type), encode_record(record), revision)


def listing(revision: int, *changes: Updated, cluster: str = "one") -> Listing:
    return Listing(tuple(StoredItem(c.key, c.value, c.mod_revision) for c in changes), revision, cluster)


@pytest.mark.parametrize("pod_type", ["", "a/b", "..", "a b", "-a", "a.", "a\n", "ä", "a" * 254])
def test_what_cannot_name_a_type_has_no_key_and_is_not_read(pod_type: str) -> None:
    with pytest.raises(ValueError, match="pod type"):
        keys.reward_key("edge-1", pod_type)
    assert keys.parse(f"/leadsman/v1/nodes/edge-1/rewards/{pod_type}") is None


def test_rewards_outlive_the_records_under_the_lease() -> None:
    alive = Updated(keys.record_key("a", Heartbeat), encode_record(Heartbeat(1, 1, 5.0)), 1)
    snapshot = apply_changes(Snapshot(), [alive, changed(2, reward()), Deleted(alive.key, 3)], 5.0)
    assert (snapshot.nodes, list(snapshot.rewards["web"])) == ({}, ["a"])


def test_a_heartbeat_leaves_the_rewards_the_same_object() -> None:
    """So that what was computed from them holds."""
    before = apply_changes(Snapshot(), [changed(1, reward())], 5.0)
    beat = Updated(keys.record_key("a", Heartbeat), encode_record(Heartbeat(1, 1, 5.0)), 2)
    assert apply_changes(before, [beat], 6.0).rewards is before.rewards


def test_a_reward_ages_from_its_last_change() -> None:
    before = apply_changes(Snapshot(), [changed(1, reward())], 5.0)
    same, other = (
        apply_changes(before, [changed(2, reward(failed))], 9.0).rewards["web"]["a"] for failed in (0.0, 1.0)
    )
    assert (same.age_seconds(20.0), other.age_seconds(20.0)) == (15.0, 11.0)


def test_a_new_listing_keeps_the_age_of_what_is_known() -> None:
    before = apply_changes(Snapshot(), [changed(1, reward()), changed(1, reward(), "b")], 5.0)
    after = snapshot_from_listing(before, listing(9, changed(8, reward()), changed(8, reward(1.0), "b")), 50.0)
    assert {node: kept.seen_at for node, kept in after.rewards["web"].items()} == {"a": 5.0, "b": 50.0}
