"""A real etcd for the whole run, and the two stores that the contract is tried on."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.memory_store import MemoryStore
from leadsman.state.store import Store
from leadsman.testbed.etcd import Etcd

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


class EtcdWorld:
    """An EtcdStore in a corner of its own of the shared etcd."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self.prefix = f"/world{next(_worlds)}/"
        self.store: Store = EtcdStore(EtcdAccess((etcd.client_url,), call_timeout_seconds=1.0), silence_seconds=2.0)

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def compact(self) -> None:
        listing = await self.store.read_prefix(self.prefix)
        self._etcd.post("/v3/kv/compaction", {"revision": str(listing.revision)})


World = MemoryWorld | EtcdWorld


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd") / "data") as one:
        yield one


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Etcd]:
    """One that a test may kill."""
    with Etcd(tmp_path / "data") as one:
        yield one


@pytest.fixture(params=["memory", "etcd"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    one = MemoryWorld() if request.param == "memory" else EtcdWorld(request.getfixturevalue("etcd"))
    yield one
    await one.store.close()
