"""Saves the node's ledger in etcd, where it outlives the agent, restores it for the next one, and reads this node's
failed binds.

Rewards and what was counted for them are written in one transaction, guarded by the ownership of the node. So the two
agree after a kill -9 at any moment: the next agent counts what was not written, and nothing twice. What can be lost is
the health since the last write, and pods that failed and were deleted while no agent ran.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeVar

from agent.capped_list import CappedList
from agent.node_ownership import NodeOwnership
from agent.pods.incident_ledger import CountedTotals, IncidentLedger
from leadsman.rewards import reward_updates
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import keys
from leadsman.state.records import (
    BadRecord,
    BindFailure,
    CountedTotalsShard,
    Record,
    Reward,
    decode_record,
    encode_record,
)
from leadsman.state.snapshot import NodeLimits
from leadsman.state.store import Delete, KeyRange, Listing, Put, Store, StoredItem, StoreError, Unavailable, Write

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Record)

MIN_CHANGE = 0.1
"""The change of health, in trials or as a share of the value if that is more, that is worth a write."""

MAX_DELETES_PER_WRITE = 16
"""A write deletes at most so many keys: with 64 types, 16 shards and 32 bind failures it stays one transaction of etcd
(128 operations)."""

_NO_TOTALS = encode_record(CountedTotalsShard({}))

_POLL_SECONDS = 0.1
_RETRY_SECONDS = (1.0, 5.0)
"""After a read that failed: all agents of a cluster may wait for etcd. An agent is taken for hung after 15 s."""


class RewardPersistence:
    """Writes what changed in a ledger, and reads back what an earlier agent wrote.

    writes, failures: since the start, for metrics.
    problem: why the last read or write failed.
    """

    def __init__(
        self,
        store: Store,
        node: str,
        ownership: Callable[[], NodeOwnership | None],
        rng: Random,
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """ownership: the claim under which this agent writes the node now; None while the node is not its own.

        fence: called after a write without a response, so that it fails if etcd does it later.
        """
        self.store, self._node, self._ownership, self._rng = store, node, ownership, rng
        self._fence = fence
        self._list = CappedList(store, keys.rewards_prefix(node), NodeLimits().pod_types)
        self._written: dict[str, Reward] = {}
        self._claim: NodeOwnership | None = None
        self.writes, self.failures = 0, 0
        self.problem = ProblemLog(
            log, "agent cannot read or write rewards in etcd; it tries again", "agent writes rewards to etcd again"
        )

    async def restore(
        self, on_attempt: Callable[[], None] = lambda: None
    ) -> tuple[dict[str, Reward], CountedTotals, bool]:
        """Reads what an earlier agent saved, once this agent owns the node, so that nobody writes it meanwhile.

        Tries until it succeeds, and calls on_attempt before each attempt. Rewards, totals, and whether there was no
        earlier agent.
        """
        while True:
            on_attempt()
            try:
                if (claim := self._ownership()) is not None:
                    restored = self._restored(*await self._read())
                    self._claim = claim
                    return restored
                await asyncio.sleep(self._rng.uniform(_POLL_SECONDS, 2 * _POLL_SECONDS))
            except StoreError as error:
                self._failed(error)
                await asyncio.sleep(self._rng.uniform(*_RETRY_SECONDS))

    async def save(self, ledger: IncidentLedger) -> None:
        """Writes what changed. What cannot be written now is written the next time: values are set, never added."""
        ownership = self._ownership()
        if ownership is not None and ownership is not self._claim and not await self._look_again(ownership, ledger):
            return
        rewards = {
            name: reward
            for name, reward in ledger.rewards.items()
            if name in ledger.changed_types or _worth_writing(self._written.get(name), reward)
        }
        shards = set(ledger.counted_totals.changed_shards)
        dropped = sorted(ledger.dropped_types)[:MAX_DELETES_PER_WRITE]
        if ownership is None or not (rewards or shards or dropped):
            return
        unsaved_failures = [key for key, saved in ledger.counted_bind_failures.items() if not saved]
        deletes = (Delete(keys.reward_key(self._node, name)) for name in dropped)
        writes: list[Write] = [*self._puts(rewards, shards, ledger), *deletes, *map(Delete, unsaved_failures)]
        ledger.counted_totals.changed_shards -= shards
        try:
            await self.store.write(writes, 0, ownership.guard)
        except asyncio.CancelledError:
            ledger.counted_totals.changed_shards |= shards  # for the last save, as the agent ends
            raise
        except StoreError as error:
            ledger.counted_totals.changed_shards |= shards
            self._failed(error)
            if isinstance(error, Unavailable):
                self._fence()
            return
        # What changed while the write was under way is written the next time.
        self._written |= rewards
        ledger.changed_types -= {name for name, reward in rewards.items() if ledger.rewards.get(name) is reward}
        for name in dropped:
            ledger.dropped_types.discard(name)
            self._written.pop(name, None)
        self.writes += 1
        self.problem.clear()
        ledger.counted_bind_failures |= dict.fromkeys(unsaved_failures, True)

    async def _look_again(self, claim: NodeOwnership, ledger: IncidentLedger) -> bool:
        """Has written again what differs in etcd after a new claim: it was restored, or a write had no response.
        False: it cannot be read now."""
        try:
            stored = {item.key: item.value for items in await self._read() for item in items}
        except StoreError as error:
            self._failed(error)
            return False
        lost = [
            name
            for name, reward in self._written.items()
            if stored.get(keys.reward_key(self._node, name)) != encode_record(reward)
        ]
        shards = {shard: ledger.counted_totals.shard_record(shard) for shard in keys.COUNTED_SHARDS}
        lost_shards = {
            shard
            for shard, record in shards.items()
            if stored.get(keys.counted_totals_key(self._node, shard), _NO_TOTALS) != encode_record(record)
        }
        if lost:
            log.info("etcd holds other rewards of %d pod types than were written; agent writes them again", len(lost))
        for name in lost:
            del self._written[name]
        ledger.changed_types |= ledger.rewards.keys() & set(lost)
        ledger.counted_totals.changed_shards |= lost_shards if stored else set(keys.COUNTED_SHARDS)
        self._claim = claim
        return True

    async def _read(self) -> tuple[Sequence[StoredItem], Sequence[StoredItem]]:
        """Returns the shards of counted totals, by their names, and the rewards, at one revision."""
        shards = [keys.counted_totals_key(self._node, shard) for shard in keys.COUNTED_SHARDS]
        listings = await self.store.read_ranges([KeyRange.single_key(key) for key in shards])
        rewards = await self._list.read(listings[0].revision)
        return [item for listing in listings for item in listing.items], rewards.items

    def _restored(
        self, counted_items: Sequence[StoredItem], reward_items: Sequence[StoredItem]
    ) -> tuple[dict[str, Reward], CountedTotals, bool]:
        shards = (_decoded(CountedTotalsShard, item) for item in counted_items)
        totals = CountedTotals(shard for shard in shards if shard is not None)
        if not counted_items:
            totals.changed_shards.add(keys.COUNTED_SHARDS[0])  # so that the next agent knows that there was one
        named = ((keys.parse(item.key), item) for item in reward_items)
        decoded = (
            (key.pod_type, _decoded(Reward, item)) for key, item in named if key and key.kind == keys.REWARDS_KIND
        )
        self._written = {pod_type: reward for pod_type, reward in decoded if reward}
        log.info(
            "agent restored rewards of %d pod types and incident totals of %d pods from etcd",
            len(self._written),
            len(totals),
        )
        return self._written, totals, not counted_items

    def _puts(self, rewards: dict[str, Reward], shards: set[str], ledger: IncidentLedger) -> Iterable[Put]:
        for name, reward in rewards.items():
            yield Put(keys.reward_key(self._node, name), encode_record(reward))
        for shard in sorted(shards):
            record = ledger.counted_totals.shard_record(shard)
            yield Put(keys.counted_totals_key(self._node, shard), encode_record(record))

    def _failed(self, error: StoreError) -> None:
        self.failures += 1
        self.problem.report(error)


def _decoded(record: type[R], item: StoredItem) -> R | None:
    try:
        return decode_record(record, item.value)
    except BadRecord as error:
        log.warning("agent cannot decode the value under %s and starts it from zero: %s", item.key, error)
        return None


def _worth_writing(before: Reward | None, after: Reward) -> bool:
    """Tells whether health or qualities changed enough. Fading alone is no change: each reader computes it."""
    if before is None:
        return after.healthy > MIN_CHANGE or bool(after.qualities)
    faded = reward_updates.decay(before, after.at_seconds)
    for was, now in ((faded.healthy, after.healthy), (faded.recent, after.recent)):
        if abs(now - was) > max(MIN_CHANGE, MIN_CHANGE * was):
            return True
    return before.qualities.keys() != after.qualities.keys() or any(
        abs(each.log_cost - before.qualities[name].log_cost) > MIN_CHANGE / 2 for name, each in after.qualities.items()
    )


POLL_INTERVALS, LONGEST_POLL_SECONDS = 6, 180.0
"""Push intervals between two reads, 30 s up to 1,000 nodes, and at most so long: the extender keeps them for 300 s. One
bounded read a node, 30 a second at 5,000."""
MAX_UNSAVED = 32
"""Failures counted between two writes; the others wait for the next."""


MAX_LISTED = 256
"""Records read at a time; those beyond wait until these are counted and deleted."""


class BindFailureCounter:
    """Counts binds to this node that failed, from the records that the extender writes: pods that never came here.

    Each is counted once: its key is deleted in the transaction that saves the reward it changed.
    """

    def __init__(self, store: Store, node: str, rng: Random | None = None) -> None:
        self._list, self._rng = CappedList(store, keys.bind_failures_prefix(node), MAX_LISTED), rng or Random()
        self._problem = ProblemLog(
            log,
            "agent cannot read bind failures from etcd; it tries again",
            "agent reads bind failures from etcd again",
        )

    async def run(self, ledger: Callable[[], IncidentLedger], push_interval_seconds: Callable[[], float]) -> None:
        """Reads until cancelled. Survives StoreErrors: what could not be read is read the next time."""
        while True:
            pause = min(POLL_INTERVALS * push_interval_seconds(), LONGEST_POLL_SECONDS)
            await asyncio.sleep(pause * self._rng.uniform(0.9, 1.1))
            try:
                await self.poll(ledger())
            except StoreError as error:
                self._problem.report(error)
            else:
                self._problem.clear()

    async def poll(self, ledger: IncidentLedger) -> None:
        """Counts what is new and forgets what is gone from etcd."""
        listing = await self._list.read()
        for key in _gone(listing, ledger):
            del ledger.counted_bind_failures[key]
        room = MAX_UNSAVED - sum(not saved for saved in ledger.counted_bind_failures.values())
        new = [item for item in listing.items if item.key not in ledger.counted_bind_failures]
        for item in new[: max(0, room)]:
            _count(item, ledger)


def _gone(listing: Listing, ledger: IncidentLedger) -> list[str]:
    """Returns the saved ones that etcd no longer has; beyond the end of a list that was cut nobody knows."""
    present = {item.key for item in listing.items}
    saved = [key for key, is_saved in ledger.counted_bind_failures.items() if is_saved and key not in present]
    return [key for key in saved if key < listing.items[-1].key] if listing.more else saved


def _count(item: StoredItem, ledger: IncidentLedger) -> None:
    """Counts one failure. A record that cannot be read or counted stays until its lease expires."""
    try:
        failure = decode_record(BindFailure, item.value)
        if not keys.is_pod_type(failure.type):
            raise ValueError(f"{failure.type!r} is no type of pod")
        ledger.count_bind_failure(item.key, failure.type, IncidentCause(failure.cause))
    except (BadRecord, ValueError) as error:
        log.warning("agent ignores the bind failure under %s: %s", item.key, error)
