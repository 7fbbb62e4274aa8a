"""A real etcd for the whole run, and the two stores that the contract is tried on."""

import asyncio
import base64
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from clusterstate.etcd import EtcdStore
from clusterstate.memory import MemoryStore
from clusterstate.store import Batch, Changed, Gone, Store
from clusterstate.transport import Access
from testbed.etcd import Etcd

WITHIN_SECONDS = 10.0

_worlds = itertools.count()


class MemoryWorld:
    """A MemoryStore on a clock that stands still unless time is made to pass."""

    prefix = "/here/"

    def __init__(self) -> None:
        self._now = 0.0
        self.memory = MemoryStore(clock=lambda: self._now)
        self.store: Store = self.memory

    async def let_pass(self, seconds: float) -> None:
        self._now += seconds
        self.memory.expire()

    async def compact(self) -> None:
        self.memory.compact()

    def other_store(self) -> Store:
        return MemoryStore()


class EtcdWorld:
    """An EtcdStore in a corner of its own of the shared etcd."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self.prefix = f"/world{next(_worlds)}/"
        self.store: Store = open_store(etcd)

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def compact(self) -> None:
        listing = await self.store.read_prefix(self.prefix)
        self._etcd.post("/v3/kv/compaction", {"revision": str(listing.revision)})


World = MemoryWorld | EtcdWorld


def open_store(
    *members: Etcd, silence_seconds: float = 2.0, call_timeout_seconds: float = 1.0, **who: str
) -> EtcdStore:
    urls = tuple(member.client_url for member in members)
    access = Access(urls, call_timeout_seconds=call_timeout_seconds, **who)
    return EtcdStore(access, silence_seconds=silence_seconds)


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd") / "data") as one:
        yield one


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Etcd]:
    """One that a test may kill."""
    with Etcd(tmp_path / "data") as one:
        yield one


@pytest.fixture
async def store(own_etcd: Etcd) -> AsyncIterator[EtcdStore]:
    one = open_store(own_etcd)
    yield one
    await one.close()


@pytest.fixture(params=["memory", "etcd"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    one = MemoryWorld() if request.param == "memory" else EtcdWorld(request.getfixturevalue("etcd"))
    yield one
    await one.store.close()


async def until(true: Callable[[], Any], within_seconds: float = WITHIN_SECONDS) -> float:
    """Seconds that it took. AssertionError when it does not become true in time."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < within_seconds, f"not within {within_seconds} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def batches_of(store: Store, prefix: str, start: int, changes: int) -> list[Batch]:
    """What a watch says until it has told so many changes."""
    seen: list[Batch] = []
    async with asyncio.timeout(WITHIN_SECONDS), aclosing(store.watch(prefix, start)) as batches:
        async for batch in batches:
            seen.append(batch)
            if sum(len(b.changes) for b in seen) >= changes:
                break
    return seen


async def changes_of(store: Store, prefix: str, start: int, changes: int) -> list[Changed | Gone]:
    return [change for batch in await batches_of(store, prefix, start, changes) for change in batch.changes]


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
