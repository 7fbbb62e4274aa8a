"""The rewards' cache: the node's book, kept in etcd when the agent is gone, and read back by the next one.

Rewards and what was counted for them are written in one transaction, guarded by the claim of the node. So after a
kill -9 at any moment the two agree: what was not written is counted by the next agent, what was written is not counted
again. Lost are at most the health since the last write, and pods that failed and were deleted while no agent ran.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TypeVar

from agent.node_ownership import NodeOwnership
from agent.pods.counted_totals import CountedTotals
from agent.pods.incident_ledger import IncidentLedger, RestoredState
from leadsman.rewards import reward_updates
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import codec, keys
from leadsman.state.codec import BadRecord
from leadsman.state.key_values import Delete, Put, StoredItem, Write
from leadsman.state.records import CountedTotalsShard, Record, Reward
from leadsman.state.store import Store, StoreError

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Record)

MIN_CHANGE = 0.1
"""Of a trial, or of the value if that is more: health that is worth a write."""

MAX_DELETES_PER_WRITE = 16
"""A write: with 64 types, 16 parts and 32 binds it stays one transaction."""

_POLL_SECONDS = 0.1


class RewardPersistence:
    """held: the claim under which the node is written now; None: it is not ours at this moment.

    For metrics: writes, failures, and problem: why the last write failed.
    """

    def __init__(self, store: Store, node: str, held: Callable[[], NodeOwnership | None], rng: Random) -> None:
        self.store, self._node, self._held, self._rng = store, node, held, rng
        self._written: dict[str, Reward] = {}
        self.writes, self.failures = 0, 0
        self.problem = ProblemLog(
            log,
            "agent cannot read or write rewards in etcd; it tries again",
            "agent writes rewards to etcd again",
        )

    async def restore(self, waited: Callable[[], None] = lambda: None) -> RestoredState:
        """What was kept, read once the node is ours, so that nobody writes it meanwhile. For as long as it takes.

        waited: called now and then, to tell that this still goes on.
        """
        while True:
            waited()
            try:
                if self._held() is not None:
                    return self._opened((await self.store.read_prefix(keys.node_prefix(self._node))).items)
            except StoreError as error:
                self._failed(error)
            await asyncio.sleep(self._rng.uniform(_POLL_SECONDS, 2 * _POLL_SECONDS))

    async def save(self, book: IncidentLedger) -> None:
        """Writes what moved. What cannot be written now is written the next time: nothing is ever added up in etcd."""
        held = self._held()
        types, parts, gone = (
            self._moved(book),
            set(book.counted_totals.changed_shards),
            sorted(book.dropped_types)[:MAX_DELETES_PER_WRITE],
        )
        told = [key for key, kept in book.counted_bind_failures.items() if not kept]
        if held is None or not (types or parts or gone):
            return
        rewards = {name: book.rewards[name] for name in types}
        book.counted_totals.changed_shards -= parts
        try:
            writes: list[Write] = [*self._puts(rewards, parts, book), *self._deletes(gone), *map(Delete, told)]
            await self.store.write(writes, precondition=held.guard)
        except StoreError as error:
            book.counted_totals.changed_shards |= parts
            self._failed(error)
            return
        self._done(book, rewards, gone)
        book.counted_bind_failures |= dict.fromkeys(told, True)

    def _opened(self, items: Iterable[StoredItem]) -> RestoredState:
        counted_prefix = keys.counted_totals_prefix(self._node)
        counted_items = [item for item in items if item.key.startswith(counted_prefix)]
        shards = (_decoded(CountedTotalsShard, item) for item in counted_items)
        totals = CountedTotals(shard for shard in shards if shard is not None)
        if not counted_items:
            totals.changed_shards.add(keys.COUNTED_SHARDS[0])  # so that the next agent knows that there was one
        self._written = dict(_rewards(items))
        log.info(
            "agent restored rewards of %d pod types and incident totals of %d pods from etcd",
            len(self._written),
            len(totals),
        )
        return RestoredState(self._written, totals, first_start=not counted_items)

    def _moved(self, book: IncidentLedger) -> set[str]:
        return {
            name
            for name, reward in book.rewards.items()
            if name in book.changed_types or _worth_writing(self._written.get(name), reward)
        }

    def _puts(self, rewards: dict[str, Reward], parts: set[str], book: IncidentLedger) -> Iterable[Put]:
        for name, reward in rewards.items():
            yield Put(keys.reward_key(self._node, name), codec.encode(reward))
        for part in sorted(parts):
            record = book.counted_totals.shard_record(part)
            yield Put(keys.counted_totals_key(self._node, part), codec.encode(record))

    def _deletes(self, types: Iterable[str]) -> Iterable[Delete]:
        return (Delete(keys.reward_key(self._node, name)) for name in types)

    def _done(self, book: IncidentLedger, rewards: dict[str, Reward], gone: Iterable[str]) -> None:
        """What changed while the write was under way stays to be written."""
        self._written |= rewards
        book.changed_types -= {name for name, reward in rewards.items() if book.rewards.get(name) is reward}
        for name in gone:
            book.dropped_types.discard(name)
            self._written.pop(name, None)
        self.writes += 1
        self.problem.clear()

    def _failed(self, error: StoreError) -> None:
        self.failures += 1
        self.problem.report(error)


def _rewards(items: Iterable[StoredItem]) -> Iterator[tuple[str, Reward]]:
    for item in items:
        key = keys.parse(item.key)
        if key is not None and key.kind == keys.REWARDS_KIND and (reward := _decoded(Reward, item)):
            yield key.pod_type, reward


def _decoded(record: type[R], item: StoredItem) -> R | None:
    try:
        return codec.decode(record, item.value)
    except BadRecord as error:
        log.warning("agent cannot decode the value under %s and starts it from zero: %s", item.key, error)
        return None


def _worth_writing(before: Reward | None, after: Reward) -> bool:
    """Fading alone is nothing to write: every reader does it by itself."""
    if before is None:
        return after.healthy > MIN_CHANGE or bool(after.qualities)
    faded = reward_updates.decay(before, after.at_seconds)
    for was, now in ((faded.healthy, after.healthy), (faded.recent, after.recent)):
        if abs(now - was) > max(MIN_CHANGE, MIN_CHANGE * was):
            return True
    return before.qualities.keys() != after.qualities.keys() or any(
        abs(each.log_cost - before.qualities[name].log_cost) > MIN_CHANGE / 2 for name, each in after.qualities.items()
    )
