"""EtcdStore and Follower on a real etcd that is killed, frozen, filled, wiped and cut off."""

import asyncio
import random
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from agent.run import REQUESTS_SILENCE_SECONDS
from leadsman.state import etcd_http
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.follower import Follower
from leadsman.state.store import Put, StoreError, Unavailable
from leadsman.testbed.etcd import Etcd
from tests import waiting
from tests.leadsman.state.conftest import put_beat, seen_beat
from tests.testbed.background import running
from tests.testbed.dns_names import Names
from tests.testbed.etcd_members import create_members
from tests.testbed.tcp_proxy import TcpProxy

pytestmark = pytest.mark.slow

CALL_SECONDS = 2.0
SILENCE_SECONDS = 4.0
VIEW_BACK_SECONDS = 10.0
"""Promise G6: the reader's view after a fault has healed."""


def opened(*urls: str) -> EtcdStore:
    return EtcdStore(EtcdAccess(urls, call_timeout_seconds=CALL_SECONDS), silence_seconds=SILENCE_SECONDS)


@pytest.fixture
async def store(own_etcd: Etcd) -> AsyncIterator[EtcdStore]:
    one = opened(own_etcd.client_url)
    yield one
    await one.close()


@pytest.fixture
async def proxy(own_etcd: Etcd) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(own_etcd.port) as one:
        yield one


@pytest.fixture
async def proxied(proxy: TcpProxy) -> AsyncIterator[EtcdStore]:
    one = opened(f"http://127.0.0.1:{proxy.port}")
    yield one
    await one.close()


@asynccontextmanager
async def following(store: EtcdStore) -> AsyncIterator[Follower]:
    follower = Follower(store, rng=random.Random(1))
    async with running(follower.run()):
        yield follower


until = partial(waiting.until, within_seconds=VIEW_BACK_SECONDS)


async def beat(store: EtcdStore, seq: int, node: str = "a") -> None:
    """Writes until it is acknowledged."""
    async with asyncio.timeout(60):
        while True:
            try:
                await store.write([put_beat(seq, node)])
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return


async def failure(batches: Any) -> StoreError:
    try:
        while True:
            await anext(batches)
    except StoreError as error:
        return error


class TestSilent:
    @pytest.mark.parametrize("how", ["proxy", "freeze"])
    async def test_a_call_and_a_watch_end_in_time(
        self, own_etcd: Etcd, proxy: TcpProxy, proxied: EtcdStore, how: str
    ) -> None:
        """A half-open connection, and a server that is stopped: the kernel acknowledges, nobody answers."""
        start = (await proxied.read_prefix("/")).revision + 1
        async with aclosing(proxied.watch("/", start)) as batches:
            await anext(batches)
            began = time.monotonic()
            proxy.silence() if how == "proxy" else own_etcd.freeze()
            watching = asyncio.create_task(failure(batches))
            with pytest.raises(Unavailable, match="no response within 2 s"):
                await proxied.read_prefix("/")
            assert time.monotonic() - began < CALL_SECONDS + 2
            assert isinstance(await watching, Unavailable)
            assert time.monotonic() - began < SILENCE_SECONDS + 2

    async def test_a_line_that_falls_silent_alone_is_replaced_and_nothing_is_missed(
        self, proxy: TcpProxy, proxied: EtcdStore, store: EtcdStore
    ) -> None:
        start = (await store.read_prefix("/")).revision + 1
        async with asyncio.timeout(60), aclosing(proxied.watch("/", start)) as batches:
            await anext(batches)
            proxy.silence_open_connections()
            await store.write([Put("/a", b"unseen")])
            while not (batch := await anext(batches)).changes:
                pass
        assert [change.key for change in batch.changes] == ["/a"]

    async def test_a_watch_of_an_agent_is_not_opened_again_while_etcd_says_that_it_is_there(
        self, own_etcd: Etcd
    ) -> None:
        """By default etcd says so every 10 minutes, and up to a tenth later: here all is so much faster."""
        own_etcd.kill()
        own_etcd.flags = ("--experimental-watch-progress-notify-interval=2s",)
        own_etcd.start()
        access = EtcdAccess((own_etcd.client_url,), call_timeout_seconds=CALL_SECONDS)
        store = EtcdStore(access, silence_seconds=REQUESTS_SILENCE_SECONDS * 2 / 600)
        start = (await store.read_prefix("/")).revision + 1
        async with asyncio.timeout(60), aclosing(store.watch("/", start)) as batches:
            await anext(batches)
            await store.write([Put("elsewhere", b"")])  # etcd says nothing to who waits for a revision to come.
            for _ in range(3):
                await anext(batches)
        metrics = await asyncio.to_thread(lambda: urlopen(f"{own_etcd.metrics_url}/metrics").read().decode())
        assert re.findall('grpc_server_started_total{grpc_method="Watch",.*} (.*)', metrics)[0] == "1"
        await store.close()


class TestAnotherStore:
    @pytest.mark.parametrize("flags", [(), ("--initial-cluster-token=other",)])
    async def test_a_wiped_store_is_listed_and_nothing_of_the_old_one_remains(
        self, own_etcd: Etcd, store: EtcdStore, flags: tuple[str, ...]
    ) -> None:
        """With the same flags it has the same cluster id, and only the lower revision gives it away."""
        async with following(store) as follower:
            for node in ("old", "older"):
                await beat(store, 1, node)
            await until(lambda: len(follower.current.nodes) == 2)
            own_etcd.wipe()
            own_etcd.flags = flags
            own_etcd.start()
            await beat(store, 1, "new")
            await until(lambda: set(follower.current.nodes) == {"new"})
            assert follower.relists == 2


class TestLarge:
    async def test_a_watch_comes_in_small_messages_and_no_transaction_is_split(
        self, own_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """15 MiB in 40 transactions, some of which end in another message than they begin in."""
        monkeypatch.setattr(etcd_http, "LONGEST_LINE_BYTES", 4 << 20)
        store = EtcdStore(EtcdAccess((own_etcd.client_url,)))
        start = (await store.read_prefix("/n/")).revision + 1
        await store.write([Put(f"/n/{i:04}", bytes(3072)) for i in range(5_000)])
        revisions: list[set[int]] = []
        count = 0
        async with asyncio.timeout(60), aclosing(store.watch("/n/", start)) as batches:
            while count < 5_000:
                batch = await anext(batches)
                count += len(batch.changes)
                revisions += [{change.mod_revision for change in batch.changes}]
                assert batch.resume_revision == max(revisions[-1], default=start - 1) + 1
        assert len([each for each in revisions if each]) > 4
        assert sum(map(len, revisions)) == len(set().union(*revisions)) == 40
        await store.close()


class TestMembers:
    @pytest.fixture
    def cluster(self, tmp_path: Path) -> Iterator[list[Etcd]]:
        cluster = create_members(tmp_path, 3)
        try:
            for member in cluster:
                member.start(wait=False)
            for member in cluster:
                member.wait_until_healthy()
            yield cluster
        finally:
            for member in cluster:
                member.stop()

    async def test_one_lost_member_is_passed_over_and_a_lost_majority_is_told(self, cluster: list[Etcd]) -> None:
        first, *others = cluster
        store, left = opened(*(member.client_url for member in cluster)), opened(others[1].client_url)
        async with following(store) as follower, aclosing(left.watch("/", 1)) as batches:
            await beat(store, 1)
            await until(lambda: seen_beat(follower) == 1)
            first.kill()
            await beat(store, 2)
            await until(lambda: seen_beat(follower) == 2)
            await anext(batches)
            others[0].kill()
            error = await asyncio.wait_for(failure(batches), 15)
            assert (type(error), "no leader" in str(error)) == (Unavailable, True)
            first.start(wait=False)
            await beat(store, 3)
            await until(lambda: seen_beat(follower) == 3)
            assert follower.relists == 1
        await store.close()
        await left.close()

    async def test_a_name_that_does_not_resolve_is_passed_over_and_one_of_two_families_is_reached(
        self, own_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = Names(monkeypatch, own_etcd.port)
        alone, beside = opened(url := f"http://{names.name}:{own_etcd.port}"), opened(url, own_etcd.client_url)
        await beside.read_prefix("/")
        with pytest.raises(Unavailable, match=names.name):
            await alone.read_prefix("/")
        names.addresses = ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))  # nobody listens on ::1
        await alone.read_prefix("/")
        await alone.close()
        await beside.close()

    async def test_a_frozen_endpoint_costs_the_calls_under_way_and_no_more(
        self, own_etcd: Etcd, tmp_path: Path
    ) -> None:
        with Etcd(tmp_path / "frozen") as frozen:
            store = opened(frozen.client_url, own_etcd.client_url)
            frozen.freeze()
            failed = await asyncio.gather(*(store.read_prefix("/") for _ in range(2)), return_exceptions=True)
            assert [type(error) for error in failed] == [Unavailable] * 2
            assert (await store.read_prefix("/")).revision == 1
            await store.close()
