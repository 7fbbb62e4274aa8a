"""A real etcd for the whole run, open and behind a gateway; the stores that the contract is tried on; heartbeats."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from leadsman.etcd.clients import Client, Clients
from leadsman.etcd.gateway import LIMITS, Gateway, create_app, create_session
from leadsman.etcd.roles import READ_WRITE, Permission, Role
from leadsman.runtime.http_server import serve
from leadsman.runtime.server_tls import ServerTls, TlsFiles
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.follower import Follower
from leadsman.state.records import Heartbeat, encode_record
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import ListedSnapshot
from leadsman.state.store import Listing, Put, Store
from leadsman.testbed.etcd import Etcd
from tests.memory_store import MemoryStore
from tests.testbed.certificates import CertificateAuthority

WORLDS = "/world"
OF_WORLDS = Role("of-worlds", frozenset({Permission(READ_WRITE, WORLDS, f"{WORLDS}~")}))
_worlds = itertools.count()


def put_beat(seq: int, node: str = "a") -> Put:
    return Put(keys.record_key(node, Heartbeat), encode_record(Heartbeat(1, seq, 5.0)))


def seen_beat(follower: Follower, node: str = "a") -> int | None:
    """The number of its heartbeat that the follower has."""
    state = follower.current.nodes.get(node)
    return None if state is None or state.heartbeat is None else state.heartbeat.seq


def snapshot_from_listing(before: Snapshot, listing: Listing, seen_at: float | None = None) -> Snapshot:
    """The snapshot of a listing that is there as a whole."""
    listed = ListedSnapshot()
    listed.take(listing.items)
    return listed.finished(before, listing.revision, listing.cluster_id, seen_at)


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
        self._etcd = etcd
        self.prefix = f"{WORLDS}{next(_worlds)}/"
        self.store: Store = EtcdStore(access, silence_seconds=2.0 * access.call_timeout_seconds)

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def compact(self) -> None:
        listing = await self.store.read_prefix(self.prefix)
        self._etcd.post("/v3/kv/compaction", {"revision": str(listing.revision)})


World = MemoryWorld | EtcdWorld


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Etcd]:
    """One that a test may kill."""
    with Etcd(tmp_path / "data") as one:
        yield one


class KnownClient(Clients):
    """Every token is that of a process which may use the worlds' keys and no others."""

    def __init__(self) -> None:
        self._client = Client(OF_WORLDS)

    async def of_token(self, token: str, address: str) -> Client:
        return self._client


@asynccontextmanager
async def gateway(etcd: Etcd, folder: Path) -> AsyncIterator[EtcdAccess]:
    """The access through a gateway of the etcd."""
    authority = CertificateAuthority()
    (folder / "ca.crt").write_text(authority.pem)
    (folder / "token").write_text("any")
    tls = ServerTls(TlsFiles(*authority.issue("127.0.0.1", "localhost").write(folder, "server")))
    async with create_session() as session:
        app = create_app(Gateway(etcd.client_url, KnownClient(), session))
        async with serve(app, "127.0.0.1", 0, LIMITS, tls=tls) as port:
            url = f"https://127.0.0.1:{port}"
            yield EtcdAccess((url,), str(folder / "ca.crt"), folder / "token", call_timeout_seconds=5.0)


@pytest.fixture(params=["memory", "etcd", "locked etcd"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        one: World = MemoryWorld()
        if request.param != "memory":
            etcd: Etcd = request.getfixturevalue("etcd")
            access = EtcdAccess((etcd.client_url,), call_timeout_seconds=5.0)
            if request.param == "locked etcd":
                access = await stack.enter_async_context(gateway(etcd, tmp_path))
            one = EtcdWorld(etcd, access)
        yield one
        await one.store.close()
