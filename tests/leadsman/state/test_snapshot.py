from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.state import keys
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Identity, Latency, PeerLatency, Reward, encode_record
from leadsman.state.snapshot import Freshness, Snapshot, changed_nodes
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import Deleted, Listing, StoredItem, Updated
from tests.leadsman.state.conftest import snapshot_from_listing

FRESH_SECONDS = 15.0
NODES = ("a", "b", "c")


def beat(seq: int, epoch: int = 1) -> Heartbeat:
    return Heartbeat(epoch=epoch, seq=seq, push_interval_seconds=5.0)


def key_of(kind: type[AnyRecord | Reward], node: str) -> str:
    """A node has one reward here, of the type web."""
    return keys.reward_key(node, "web") if issubclass(kind, Reward) else keys.record_key(node, kind)


def changed(revision: int, record: AnyRecord | Reward, node: str = "a") -> Updated:
    return Updated(key_of(type(record), node), encode_record(record), revision)


def listing(revision: int, *changes: Updated, cluster: str = "one") -> Listing:
    return Listing(tuple(StoredItem(c.key, c.value, c.mod_revision) for c in changes), revision, cluster)


def followed(*seqs: int) -> Snapshot:
    """Node a, met in a listing at second 0 and then seen to beat every 5 s."""
    snapshot = snapshot_from_listing(Snapshot(), listing(1, changed(1, beat(0))))
    for i, seq in enumerate(seqs, 1):
        snapshot = apply_changes(snapshot, [changed(i + 1, beat(seq))], i * 5.0)
    return snapshot


class TestFreshness:
    def test_a_heartbeat_that_changed_is_fresh_for_three_of_its_intervals(self) -> None:
        state = followed(1).nodes["a"]
        assert state.freshness(5.0 + FRESH_SECONDS - 0.001) is Freshness.FRESH
        assert state.freshness(5.0 + FRESH_SECONDS) is Freshness.STALE
        assert state.age_seconds(8.0) == 3.0

    def test_a_heartbeat_written_again_unchanged_proves_nothing(self) -> None:
        assert followed(1, 1, 1).nodes["a"].changed_at == 5.0

    def test_a_heartbeat_that_cannot_be_read_ends_the_trust_in_the_one_before(self) -> None:
        snapshot = apply_changes(followed(1), [Updated(keys.record_key("a", Heartbeat), b"?", 3)], 6.0)
        assert "a" not in snapshot.nodes
        assert list(snapshot.problems) == [keys.record_key("a", Heartbeat)]


class TestListing:
    def test_a_proof_outlives_a_fresh_listing_of_the_same_store(self) -> None:
        state = snapshot_from_listing(followed(1), listing(9, changed(9, beat(3)))).nodes["a"]
        assert (state.heartbeat, state.changed_at) == (beat(3), 5.0)

    @pytest.mark.parametrize("other", [listing(9, changed(9, beat(3)), cluster="two"), listing(1, changed(1, beat(3)))])
    def test_no_proof_outlives_another_store_or_one_that_went_back(self, other: Listing) -> None:
        assert snapshot_from_listing(followed(1), other).nodes["a"].freshness(6.0) is Freshness.PROVISIONAL


class TestChanges:
    def test_a_change_that_is_no_newer_was_seen_already(self) -> None:
        snapshot = followed(1, 2)
        assert apply_changes(snapshot, [changed(3, beat(1)), changed(2, beat(1))], 99.0) == snapshot

    def test_a_bad_record_is_named_and_its_neighbours_are_kept(self) -> None:
        bad = Updated(keys.record_key("a", Identity), b'{"v":2}', 3)
        snapshot = apply_changes(followed(1), [bad, changed(3, beat(1), "b")], 9.0)
        assert set(snapshot.nodes) == {"a", "b"}
        assert "$.v" in snapshot.problems[bad.key]


WRITES = st.tuples(
    st.sampled_from(NODES),
    st.one_of(
        st.builds(beat, st.integers(0, 3)),
        st.builds(Hardware, st.just({"x": 1.0})),
        st.builds(lambda failed: Reward(1.0, failed=failed), st.sampled_from([0.0, 1.0])),
        st.sampled_from([Heartbeat, Hardware, Reward]),
        st.just(b"bad"),
    ),
)


def as_change(revision: int, node: str, what: Any) -> Updated | Deleted:
    if isinstance(what, type):
        return Deleted(key_of(what, node), revision)
    return Updated(key_of(Hardware, node), what, revision) if isinstance(what, bytes) else changed(revision, what, node)


@given(st.lists(WRITES, max_size=30), st.data())
def test_changes_one_by_one_equal_a_fresh_listing(writes: list[tuple[str, Any]], data: st.DataObject) -> None:
    """However they are cut into batches."""
    changes = [as_change(i, *write) for i, write in enumerate(writes, 2)]
    table = {c.key: c for c in changes}
    left = (change for change in table.values() if isinstance(change, Updated))
    fresh = snapshot_from_listing(Snapshot(), listing(len(writes) + 1, *left))
    snapshot, at = Snapshot(cluster_id="one", revision=1), 0
    while at < len(changes):
        size = data.draw(st.integers(1, 4))
        snapshot = apply_changes(snapshot, changes[at : at + size], None)
        at += size
    assert snapshot == fresh


@given(st.lists(st.tuples(st.builds(beat, st.integers(0, 3), st.integers(1, 2)), st.floats(0, 20)), max_size=20))
def test_no_node_is_fresh_longer_after_its_last_change_than_its_interval_allows(
    beats: list[tuple[Heartbeat, float]],
) -> None:
    """A node met in a listing is provisional until it changes."""
    snapshot, now, last = followed(), 0.0, None
    before = beat(0)
    for revision, (one, passed) in enumerate(beats, 2):
        now += passed
        last = now if one != before else last
        before = one
        snapshot = apply_changes(snapshot, [changed(revision, one)], now)
        expected = Freshness.PROVISIONAL if last is None else Freshness.FRESH if now - last < 15 else Freshness.STALE
        assert snapshot.nodes["a"].freshness(now) is expected
        assert snapshot.nodes["a"].age_seconds(now) == (None if last is None else now - last)


def test_a_node_s_name_is_one_string_under_each_key_and_in_each_record_of_another() -> None:
    """What many records have in common is one object."""
    peer = "a-node-whose-name-is-longer-than-any-that-a-decoder-keeps"
    windows = Latency({peer: PeerLatency(1, 0), "b": PeerLatency(1, 0)})
    rewards = [StoredItem(keys.reward_key(peer, each), encode_record(Reward(1.0)), 1) for each in ("web", "db")]
    own = StoredItem(keys.record_key(peer, Heartbeat), encode_record(beat(1)), 1)
    listed = Listing((*listing(1, changed(1, windows)).items, own, *rewards), 1, "one")
    snapshot = snapshot_from_listing(Snapshot(), listed)
    tables = (snapshot.nodes["a"].latency.peers, snapshot.nodes, *snapshot.rewards.values())
    assert len({id(name) for table in tables for name in table if name == peer}) == 1


# The log of changed nodes says what comparing all nodes' states says.


steps = st.tuples(st.integers(0, 30), st.sampled_from(NODES), st.just(Heartbeat) | st.builds(beat, st.integers(0, 9)))


@given(st.lists(steps, max_size=30))
def test_any_two_snapshots_of_a_tree_differ_by_the_nodes_that_comparing_finds(
    changes: list[tuple[int, str, Any]],
) -> None:
    """Each change is of a snapshot before: a node's heartbeat, or it goes."""
    made = [Snapshot()]
    for predecessor, node, what in changes:
        before = made[-1 - predecessor % len(made)]
        made.append(apply_changes(before, [as_change(before.revision + 1, node, what)], 1.0))
    for before in made:
        for after in made:
            nodes = list(changed_nodes(before, after))
            assert set(nodes) == {node for node in NODES if before.nodes.get(node) is not after.nodes.get(node)}
            assert len(nodes) == len(set(nodes))


# Rewards: where they stand, what survives their bytes, and how a reader keeps them.


def reward(failed: float = 0.0) -> Reward:
    return Reward(at_seconds=1_000.0, failed=failed)


@pytest.mark.parametrize("pod_type", ["", "a/b", "..", "a b", "-a", "a.", "a\n", "ä", "a" * 254])
def test_what_cannot_name_a_type_has_no_key_and_is_not_read(pod_type: str) -> None:
    with pytest.raises(ValueError, match="pod type"):
        keys.reward_key("edge-1", pod_type)
    assert keys.parse(f"/leadsman/v1/nodes/edge-1/rewards/{pod_type}") is None


def test_a_heartbeat_leaves_the_rewards_the_same_object() -> None:
    """So that what was computed from them holds."""
    before = apply_changes(Snapshot(), [changed(1, reward())], 5.0)
    assert apply_changes(before, [changed(2, beat(1))], 6.0).rewards is before.rewards


def test_a_reward_ages_from_its_last_change() -> None:
    before = apply_changes(Snapshot(), [changed(1, reward())], 5.0)
    same, other = (
        apply_changes(before, [changed(2, reward(failed))], 9.0).rewards["web"]["a"] for failed in (0.0, 1.0)
    )
    assert (same.age_seconds(20.0), other.age_seconds(20.0)) == (15.0, 11.0)


def test_a_new_listing_keeps_the_age_of_what_is_known() -> None:
    before = apply_changes(Snapshot(), [changed(1, reward()), changed(1, reward(), "b")], 5.0)
    again = listing(9, changed(8, reward()), changed(8, reward(1.0), "b"))
    after = snapshot_from_listing(before, again, 50.0)
    assert {node: kept.seen_at for node, kept in after.rewards["web"].items()} == {"a": 5.0, "b": 50.0}
