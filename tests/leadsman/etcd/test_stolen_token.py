"""One agent's token, used as fast as it can be, makes no report of another node's agent late (H4)."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from leadsman.etcd.gateway import LARGEST_REQUEST_BYTES
from leadsman.state import keys
from leadsman.state.records import Heartbeat
from leadsman.state.store import LeaseLost, Put, StoreError
from tests.daemonset.conftest import MANIFESTS, load
from tests.leadsman.etcd.locked_members import LockedMembers
from tests.leadsman.etcd.test_locked_members import locked_members
from tests.testbed.background import running
from tests.waiting import until

pytestmark = pytest.mark.slow
log = logging.getLogger(__name__)

PUSH_SECONDS = 1.0
"""Five times as often as agents report."""
MISSED_AFTER_SECONDS = 5.0
THIEVES = 30
"""Loops at once with the one token, on connections of their own."""
LIMITS_OF_THE_MANIFESTS = ("--quota-backend-bytes", "--max-request-bytes", "--snapshot-count", "--auto-compaction")


class Honest:
    """An agent's reports. missed: those that took longer than until the next report of a real agent."""

    def __init__(self, members: LockedMembers, name: str) -> None:
        self.store, self.name = members.store(name), name
        self.written = self.missed = 0
        self.slowest_seconds = 0.0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        lease = 0
        while True:
            began = loop.time()
            while True:
                try:
                    lease = lease or await self.store.grant(60)
                    put = Put(keys.record_key(self.name, Heartbeat), str(self.written).encode() + bytes(4000))
                    await self.store.write([put], lease)
                    await self.store.keep_alive(lease)
                    break
                except StoreError as error:
                    log.info("%s: %s", self.name, error)
                    lease = 0 if isinstance(error, LeaseLost) else lease
                    await asyncio.sleep(0.1)
            took = loop.time() - began
            self.written, self.missed = self.written + 1, self.missed + (took > MISSED_AFTER_SECONDS)
            self.slowest_seconds = max(self.slowest_seconds, took)
            await asyncio.sleep(PUSH_SECONDS)


class Thief:
    """Does one thing as fast as it can with the token of node-0. done, refused: how often."""

    def __init__(self, members: LockedMembers) -> None:
        self.store, self.rng = members.store("node-0"), random.Random(1)
        self.done = self.refused = 0

    async def large(self) -> None:
        await self.store.write(
            [Put(keys.record_key("node-0", Heartbeat), bytes(LARGEST_REQUEST_BYTES * 3 // 4 - 4096))]
        )

    async def huge(self) -> None:
        await self.store.write([Put(keys.record_key("node-0", Heartbeat), bytes(750_000))])

    async def small(self) -> None:
        await self.store.write([Put(keys.reward_key("node-0", f"type-{self.rng.randrange(10**9)}"), b"1")])

    async def lease(self) -> None:
        await self.store.grant(1800)

    async def run(self, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await act()
                self.done += 1
            except StoreError:
                self.refused += 1


async def attack(members: LockedMembers) -> Sequence[Honest]:
    """Goes on until every honest agent has reported six times, and the thieves have done much."""
    honest = [Honest(members, f"node-{number}") for number in range(1, 5)]
    thieves = [Thief(members) for _ in range(THIEVES)]
    acts = [(each.large, each.huge, each.small, each.lease)[number % 4] for number, each in enumerate(thieves)]
    loops = [each.run() for each in honest] + [each.run(act) for each, act in zip(thieves, acts, strict=True)]
    async with running(*loops):
        await until(lambda: all(each.written > 5 for each in honest))
        await until(lambda: sum(each.refused for each in thieves) > 100)
    for store in [each.store for each in honest] + [each.store for each in thieves]:
        await store.close()
    return honest


def manifest_flags() -> list[str]:
    """Those that limit etcd, as the manifest has them."""
    (member,) = [each for each in load(MANIFESTS / "base/etcd.yaml") if each["kind"] == "StatefulSet"]
    (sidecar,) = member["spec"]["template"]["spec"]["initContainers"]
    return [each for each in sidecar["args"] if each.startswith(LIMITS_OF_THE_MANIFESTS)]


async def test_no_report_of_another_node_is_late_while_one_token_does_all_it_can(tmp_path: Path) -> None:
    async with locked_members(tmp_path, manifest_flags()) as members:
        honest = await attack(members)
        size = max(int(each.post("/v3/maintenance/status", {})["dbSize"]) for each in members.all)
        leases = len(members.all[0].post("/v3/lease/leases", {}).get("leases", []))
    assert [each.missed for each in honest] == [0] * len(honest)
    assert leases < 100
    assert size < 64 << 20
