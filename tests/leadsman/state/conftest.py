"""Real etcds for the whole run, one of them locked, and the stores that the contract is tried on."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from leadsman.etcd.access_control import READ_WRITE, AccessControl, EtcdRole, Permission
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.memory_store import MemoryStore
from leadsman.state.store import Store
from leadsman.testbed.etcd import Etcd, EtcdTls
from tests.testbed.certificates import CertificateAuthority

WORLDS = "/world"
ROOT = {"name": "root", "password": "of-root"}
OF_WORLDS = EtcdRole("of-worlds", frozenset({Permission(READ_WRITE, WORLDS, f"{WORLDS}~")}))
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

    def __init__(self, etcd: Etcd, access: EtcdAccess) -> None:
        self._etcd, self._is_locked = etcd, bool(access.user)
        self.prefix = f"{WORLDS}{next(_worlds)}/"
        self.store: Store = EtcdStore(access, silence_seconds=2.0 * access.call_timeout_seconds)

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def compact(self) -> None:
        listing = await self.store.read_prefix(self.prefix)
        token = self._etcd.post("/v3/auth/authenticate", ROOT)["token"] if self._is_locked else ""
        self._etcd.post("/v3/kv/compaction", {"revision": str(listing.revision)}, token=token)


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


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Etcd, EtcdAccess]]:
    """An etcd behind TLS and access control, and the access of a user who may use the worlds' keys and no others."""
    folder = tmp_path_factory.mktemp("locked")
    authority = CertificateAuthority()
    (folder / "ca.crt").write_text(authority.pem)
    certificate, key = authority.issue("127.0.0.1", "localhost").write(folder, "server")
    tls = EtcdTls(folder / "ca.crt", certificate, key)
    with Etcd(folder / "data", tls=tls, flags=["--bcrypt-cost=4"]) as one:
        # A first call also logs in, which is a write.
        root = EtcdAccess((one.client_url,), str(tls.ca), ROOT["name"], ROOT["password"], call_timeout_seconds=5.0)
        with ThreadPoolExecutor(1) as outside_the_loop:
            password = outside_the_loop.submit(asyncio.run, _lock(root)).result()
        yield one, structs.replace(root, user=OF_WORLDS.name, password=password)


async def _lock(root: EtcdAccess) -> str:
    control = AccessControl(root)
    try:
        await control.enable()
        return await control.password(OF_WORLDS)
    finally:
        await control.close()


@pytest.fixture(params=["memory", "etcd", "locked etcd"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    one: World
    if request.param == "memory":
        one = MemoryWorld()
    elif request.param == "etcd":
        etcd: Etcd = request.getfixturevalue("etcd")
        one = EtcdWorld(etcd, EtcdAccess((etcd.client_url,), call_timeout_seconds=1.0))
    else:
        one = EtcdWorld(*request.getfixturevalue("locked"))
    yield one
    await one.store.close()
