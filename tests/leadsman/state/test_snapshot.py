from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.state import keys
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Identity, Latency, PeerLatency, Reward, encode_record
from leadsman.state.snapshot import Freshness, Snapshot
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import Deleted, Listing, StoredItem, Updated
from tests.leadsman.state.listed import snapshot_from_listing

FRESH_SECONDS = 15.0
NODES = ("a", "b", "c")


def beat(seq: int, epoch: int = 1, push: float = 5.0) -> Heartbeat:
    return Heartbeat(epoch=epoch, seq=seq, push_interval_seconds=push)


def changed(revision: int, record: AnyRecord, node: str = "a") -> Updated:
    return Updated(keys.record_key(node, type(record)), encode_record(record), revision)


def listing(revision: int, *records: AnyRecord, cluster: str = "one") -> Listing:
    items = (changed(revision, record) for record in records)
    return Listing(tuple(StoredItem(c.key, c.value, c.mod_revision) for c in items), revision, cluster)


def followed(*seqs: int, every: float = 5.0) -> Snapshot:
    """Node a, met in a listing at second 0 and then seen to beat."""
    snapshot = snapshot_from_listing(Snapshot(), listing(1, beat(0)))
    for i, seq in enumerate(seqs, 1):
        snapshot = apply_changes(snapshot, [changed(i + 1, beat(seq))], i * every)
    return snapshot


class TestFreshness:
    def test_a_node_met_in_a_listing_is_provisional_however_long_one_waits(self) -> None:
        state = followed().nodes["a"]
        assert {state.freshness(now) for now in (0.0, 5.0, 1e9)} == {Freshness.PROVISIONAL}
        assert state.age_seconds(9.0) is None

    def test_a_heartbeat_that_changed_is_fresh_for_three_of_its_intervals(self) -> None:
        state = followed(1).nodes["a"]
        assert state.freshness(5.0 + FRESH_SECONDS - 0.001) is Freshness.FRESH
        assert state.freshness(5.0 + FRESH_SECONDS) is Freshness.STALE
        assert state.age_seconds(8.0) == 3.0

    def test_a_heartbeat_written_again_unchanged_proves_nothing(self) -> None:
        assert followed(1, 1, 1).nodes["a"].changed_at == 5.0

    def test_a_new_epoch_with_the_same_number_is_a_change(self) -> None:
        state = apply_changes(followed(1), [changed(3, beat(1, epoch=2))], 20.0).nodes["a"]
        assert state.changed_at == 20.0

    def test_a_heartbeat_that_cannot_be_read_ends_the_trust_in_the_one_before(self) -> None:
        snapshot = apply_changes(followed(1), [Updated(keys.record_key("a", Heartbeat), b"?", 3)], 6.0)
        assert "a" not in snapshot.nodes
        assert list(snapshot.problems) == [keys.record_key("a", Heartbeat)]


class TestListing:
    def test_a_proof_outlives_a_fresh_listing_of_the_same_store(self) -> None:
        state = snapshot_from_listing(followed(1), listing(9, beat(3))).nodes["a"]
        assert (state.heartbeat, state.changed_at) == (beat(3), 5.0)

    @pytest.mark.parametrize("other", [listing(9, beat(3), cluster="two"), listing(1, beat(3))])
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

    def test_a_problem_ends_with_a_good_record_or_with_the_key(self) -> None:
        key = keys.record_key("a", Hardware)
        broken = apply_changes(followed(1), [Updated(key, b"", 3)], 9.0)
        assert apply_changes(broken, [changed(4, Hardware({}))], 9.0).problems == {}
        assert apply_changes(broken, [Deleted(key, 4)], 9.0).problems == {}


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
    kind = Hardware if isinstance(what, bytes) else what if isinstance(what, type) else type(what)
    key = keys.reward_key(node, "web") if kind is Reward else keys.record_key(node, kind)
    if isinstance(what, type):
        return Deleted(key, revision)
    return Updated(key, what if isinstance(what, bytes) else encode_record(what), revision)


@given(st.lists(WRITES, max_size=30), st.data())
def test_changes_one_by_one_equal_a_fresh_listing(writes: list[tuple[str, Any]], data: st.DataObject) -> None:
    """However they are cut into batches."""
    changes = [as_change(i, *write) for i, write in enumerate(writes, 2)]
    table = {c.key: c for c in changes}
    items = tuple(StoredItem(c.key, c.value, c.mod_revision) for c in table.values() if isinstance(c, Updated))
    fresh = snapshot_from_listing(Snapshot(), Listing(items, len(writes) + 1, "one"))
    snapshot, at = Snapshot(cluster_id="one", revision=1), 0
    while at < len(changes):
        size = data.draw(st.integers(1, 4))
        snapshot = apply_changes(snapshot, changes[at : at + size], None)
        at += size
    assert snapshot == fresh


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 20)), max_size=20))
def test_no_node_is_fresh_longer_after_its_last_change_than_its_interval_allows(beats: list[tuple[int, float]]) -> None:
    snapshot, now, last = followed(), 0.0, None
    before = 0
    for revision, (seq, passed) in enumerate(beats, 2):
        now += passed
        last = now if seq != before else last
        before = seq
        snapshot = apply_changes(snapshot, [changed(revision, beat(seq))], now)
        expected = Freshness.PROVISIONAL if last is None else Freshness.FRESH if now - last < 15 else Freshness.STALE
        assert snapshot.nodes["a"].freshness(now) is expected


class TestMemory:
    """What many records have in common is one object."""

    def test_a_node_s_name_is_one_string_under_each_key_and_in_each_record_of_another(self) -> None:
        peer = "a-node-whose-name-is-longer-than-any-that-a-decoder-keeps"
        windows = Latency({peer: PeerLatency(1, 0), "b": PeerLatency(1, 0)})
        rewards = [StoredItem(keys.reward_key(peer, each), encode_record(Reward(1.0)), 1) for each in ("web", "db")]
        own = StoredItem(keys.record_key(peer, Heartbeat), encode_record(beat(1)), 1)
        listed = Listing((*listing(1, windows).items, own, *rewards), 1, "one")
        snapshot = snapshot_from_listing(Snapshot(), listed)
        tables = (snapshot.nodes["a"].latency.peers, snapshot.nodes, *snapshot.rewards.values())
        assert len({id(name) for table in tables for name in table if name == peer}) == 1
