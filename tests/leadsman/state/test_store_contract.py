"""What every store does, tried on the one in memory, on a real etcd and on a locked one."""

import asyncio
from contextlib import aclosing, nullcontext
from typing import Any

import pytest

from leadsman.state.store import (
    ChangeBatch,
    Compacted,
    Delete,
    Deleted,
    KeyRange,
    LeaseLost,
    Precondition,
    PreconditionFailed,
    Put,
    Store,
    StoredItem,
    Updated,
)

World = Any
NEVER_GRANTED = 4711


async def first(store: Store, prefix: str, start: int, cluster: str = "") -> ChangeBatch:
    async with aclosing(store.watch(prefix, start, cluster)) as batches:
        return await anext(batches)


async def keys(world: World) -> list[str]:
    listing = await world.store.read_prefix(world.prefix)
    return [item.key.removeprefix(world.prefix) for item in listing.items]


class TestReading:
    async def test_what_was_written_is_listed_in_key_order_and_nothing_beside_the_prefix(self, world: World) -> None:
        beside = world.prefix[:-1] + "0"
        revision = await world.store.write(
            [Put(world.prefix + "b", b"2"), Put(world.prefix + "a", b"1"), Put(beside, b"")]
        )
        listing = await world.store.read_prefix(world.prefix)
        assert listing.items == (
            StoredItem(world.prefix + "a", b"1", revision),
            StoredItem(world.prefix + "b", b"2", revision),
        )
        assert listing.revision == revision


class TestReadingRanges:
    @pytest.mark.parametrize(
        ("start", "end", "limit", "found"),
        [
            ("b", "d", 9, "bc"),
            ("b", "z", 2, "bc"),
            ("bb", "z", 9, "cd"),
            ("a", "a", 9, ""),
            ("e", "z", 9, ""),
            ("a", "e", 4, "abcd"),
        ],
    )
    async def test_a_range_is_its_first_keys_from_the_start_and_before_the_end(
        self, world: World, start: str, end: str, limit: int, found: str
    ) -> None:
        revision = await world.store.write([Put(world.prefix + name, name.encode()) for name in "dbca"])
        (listing,) = await world.store.read_ranges([KeyRange(world.prefix + start, world.prefix + end, limit)])
        assert listing.items == tuple(StoredItem(world.prefix + name, name.encode(), revision) for name in found)

    async def test_one_call_answers_many_ranges_in_the_order_asked_and_at_one_revision(self, world: World) -> None:
        await world.store.write([Put(f"{world.prefix}{number}", b"") for number in range(5)])
        revision = await world.store.write([Delete(world.prefix + "1")])
        asked = [
            KeyRange.single_key(world.prefix + "3"),
            KeyRange.single_key(world.prefix + "1"),
            KeyRange(world.prefix, world.prefix + "~", 2),
        ]
        listings = await world.store.read_ranges(asked)
        found = [[item.key.removeprefix(world.prefix) for item in listing.items] for listing in listings]
        assert found == [["3"], [], ["0", "2"]]
        assert {(listing.revision, listing.cluster_id) for listing in listings} == {
            (revision, (await world.store.read_prefix(world.prefix)).cluster_id)
        }


class TestWriting:
    async def test_128_writes_are_one_transaction_and_more_are_several_in_order(self, world: World) -> None:
        revision = await world.store.write([Put(f"{world.prefix}{i:03}", b"") for i in range(300)])
        listing = await world.store.read_prefix(world.prefix)
        expected = [revision - 2] * 128 + [revision - 1] * 128 + [revision] * 44
        assert [item.mod_revision for item in listing.items] == expected

    async def test_a_key_twice_is_refused_before_anything_is_written(self, world: World) -> None:
        with pytest.raises(ValueError, match="duplicate keys"):
            await world.store.write([Put(world.prefix + "a", b"1"), Delete(world.prefix + "a")])
        assert await keys(world) == []

    @pytest.mark.parametrize(
        ("held", "wanted", "passes"),
        [
            *((value, value, True) for value in (None, b"mine", b"")),
            *((b"theirs", other, False) for other in (None, b"mine")),
            (None, b"mine", False),
            (b"", None, False),
        ],
    )
    async def test_a_write_is_done_if_its_guard_holds(
        self, world: World, held: bytes | None, wanted: bytes | None, passes: bool
    ) -> None:
        owner = world.prefix + "owner"
        await world.store.write([] if held is None else [Put(owner, held)])
        with nullcontext() if passes else pytest.raises(PreconditionFailed, match="owner"):
            await world.store.write([Put(world.prefix + "a", b"")], 0, Precondition(owner, wanted))
        assert ("a" in await keys(world)) is passes

    @pytest.mark.parametrize("wanted", [b"1", None])
    async def test_a_write_with_two_guards_is_done_if_both_hold(self, world: World, wanted: bytes | None) -> None:
        guards = [Precondition(world.prefix + name, value) for name, value in (("none", None), ("one", wanted))]
        await world.store.write([Put(world.prefix + "one", b"1")])
        with nullcontext() if wanted else pytest.raises(PreconditionFailed):
            await world.store.write([Put(world.prefix + "a", b"")], 0, *guards)
        assert ("a" in await keys(world)) is bool(wanted)

    async def test_each_transaction_of_a_long_write_is_guarded(self, world: World) -> None:
        """The first one takes the owner's key, so the second one may not pass any longer."""
        writes = [Put(f"{world.prefix}{i:03}", b"") for i in range(129)]
        with pytest.raises(PreconditionFailed):
            await world.store.write(writes, 0, Precondition(world.prefix + "000", None))
        assert len(await keys(world)) == 128


class TestLeases:
    async def test_a_revoked_lease_takes_what_lives_under_it(self, world: World) -> None:
        lease = await world.store.grant(60)
        await world.store.write([Put(world.prefix + "mine", b"")], lease)
        await world.store.write([Put(world.prefix + "kept", b"")])
        await world.store.revoke(lease)
        assert await keys(world) == ["kept"]

    async def test_a_put_under_a_lease_that_ended_is_refused(self, world: World) -> None:
        with pytest.raises(LeaseLost):
            await world.store.write([Put(world.prefix + "a", b"")], NEVER_GRANTED)
        assert await keys(world) == []

    async def test_a_lease_that_ended_cannot_be_kept_alive(self, world: World) -> None:
        """etcd answers 200 to this."""
        with pytest.raises(LeaseLost, match="4711"):
            await world.store.keep_alive(NEVER_GRANTED)

    @pytest.mark.slow
    async def test_a_lease_lives_as_long_as_it_is_renewed_and_then_its_keys_vanish(self, world: World) -> None:
        lease = await world.store.grant(5)
        start = await world.store.write([Put(world.prefix + "mine", b"")], lease)
        for _ in range(3):
            await world.let_pass(2)
            await world.store.keep_alive(lease)
        assert await keys(world) == ["mine"]
        gone = asyncio.create_task(_changes(world, start + 1, 1))
        await world.let_pass(6)
        assert isinstance((await gone)[0], Deleted)
        assert await keys(world) == []


class TestWatching:
    async def test_a_watch_from_after_a_listing_tells_every_change_in_order(self, world: World) -> None:
        start = (await world.store.read_prefix(world.prefix)).revision + 1
        told = asyncio.create_task(_changes(world, start, 3))
        one = await world.store.write([Put(world.prefix + "a", b"1")])
        await world.store.write([Put("/world-elsewhere", b"")])
        two = await world.store.write([Put(world.prefix + "a", b"2")])
        three = await world.store.write([Delete(world.prefix + "a")])
        key = world.prefix + "a"
        assert await told == [Updated(key, b"1", one), Updated(key, b"2", two), Deleted(key, three)]

    @pytest.mark.slow
    async def test_an_idle_watch_gives_signs_of_life(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.memory_store.PROGRESS_INTERVAL_SECONDS", 0.1)
        start = (await world.store.read_prefix(world.prefix)).revision + 1
        async with asyncio.timeout(60), aclosing(world.store.watch(world.prefix, start)) as batches:
            signs = [await anext(batches) for _ in range(3)]
        assert [sign.changes for sign in signs] == [(), (), ()]

    async def test_changes_from_before_the_watch_are_marked_as_of_unknown_age(self, world: World) -> None:
        start = await world.store.write([Put(world.prefix + "old", b"")])
        async with asyncio.timeout(60), aclosing(world.store.watch(world.prefix, start)) as batches:
            assert [await anext(batches), (await anext(batches)).backlog] == [ChangeBatch((), start), True]
            await world.store.write([Put(world.prefix + "new", b"")])
            assert (await _next_change(batches)).backlog is False

    async def test_a_transaction_is_never_parted_so_that_resuming_after_it_misses_nothing(self, world: World) -> None:
        start = (await world.store.read_prefix(world.prefix)).revision + 1
        revision = await world.store.write([Put(f"{world.prefix}{i}", b"") for i in range(100)])
        async with asyncio.timeout(60), aclosing(world.store.watch(world.prefix, start)) as batches:
            batch = await _next_change(batches)
        assert (len(batch.changes), batch.resume_revision) == (100, revision + 1)

    async def test_a_revision_that_was_compacted_cannot_be_watched_from(self, world: World) -> None:
        start = await world.store.write([Put(world.prefix + "a", b"1")])
        await world.store.write([Put(world.prefix + "a", b"2")])
        await world.compact()
        with pytest.raises(Compacted):
            await _changes(world, start, 1)

    async def test_a_revision_that_the_store_has_not_reached_is_another_history(self, world: World) -> None:
        revision = (await world.store.read_prefix(world.prefix)).revision
        with pytest.raises(Compacted, match="revision went back"):
            await first(world.store, world.prefix, revision + 2)

    async def test_another_cluster_is_another_history(self, world: World) -> None:
        listing = await world.store.read_prefix(world.prefix)
        with pytest.raises(Compacted, match="cluster"):
            await first(world.store, world.prefix, listing.revision + 1, "not " + listing.cluster_id)
        assert await first(world.store, world.prefix, listing.revision + 1, listing.cluster_id)


async def _next_change(batches: Any) -> ChangeBatch:
    while not (batch := await anext(batches)).changes:
        pass
    return batch


async def _changes(world: World, start: int, count: int) -> list[Updated | Deleted]:
    seen: list[Updated | Deleted] = []
    async with asyncio.timeout(60), aclosing(world.store.watch(world.prefix, start)) as batches:
        while len(seen) < count:
            seen += (await anext(batches)).changes
    return seen
