"""A crowded prefix on a real etcd: the other nodes stay fresh, and what is too large is not loaded."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec import structs

from leadsman.state import keys
from leadsman.state.etcd_http import LARGEST_RESPONSE_BYTES, EtcdAccess, EtcdTransport
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.follower import Follower, node_pages
from leadsman.state.records import Heartbeat, Reward, encode_record
from leadsman.state.snapshot import Freshness
from leadsman.state.store import Put, Unavailable
from leadsman.testbed.etcd import Etcd, EtcdTls
from tests.conftest import Until
from tests.testbed.certificates import CertificateAuthority

REWARD_KEYS = 2_000


@pytest.fixture
async def store(own_etcd: Etcd) -> AsyncIterator[EtcdStore]:
    """Patient: pages of megabytes take a busy machine a while."""
    one = EtcdStore(EtcdAccess((own_etcd.client_url,), call_timeout_seconds=30.0), silence_seconds=60.0)
    yield one
    await one.close()


@pytest.fixture
async def follower(store: EtcdStore, until: Until) -> AsyncIterator[Follower]:
    """One that has loaded a store of which one node is crowded."""
    await crowd(store)
    one = Follower(store)
    task = asyncio.create_task(one.run())
    await until(one.loaded.is_set)
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def crowd(store: EtcdStore, healthy: float = 0.0) -> None:
    value = encode_record(Reward(0.0, healthy=healthy))
    await store.write([Put(keys.reward_key("crowded", f"type-{n:05}"), value) for n in range(REWARD_KEYS)])


async def beat(store: EtcdStore, seq: int) -> None:
    for node in ("a", "crowded", "z"):
        await store.write([Put(keys.record_key(node, Heartbeat), encode_record(Heartbeat(1, seq, 5.0)))])


async def test_all_nodes_are_fresh_beside_and_under_a_crowded_prefix(
    store: EtcdStore, follower: Follower, until: Until
) -> None:
    await beat(store, 1)
    await crowd(store, 1.0)
    await beat(store, 2)
    last = Heartbeat(1, 2, 5.0)
    await until(lambda: "z" in follower.current.nodes and follower.current.nodes["z"].heartbeat == last)
    assert follower.current.nodes.keys() == {"a", "crowded", "z"}
    assert {state.freshness(time.monotonic()) for state in follower.current.nodes.values()} == {Freshness.FRESH}


async def test_values_of_700_kb_are_not_loaded_at_once(store: EtcdStore) -> None:
    """25 of them would be one page of 23 MB."""
    for number in range(25):
        await store.write([Put(keys.reward_key("crowded", f"type-{number:05}"), b"x" * 700_000)])
    await beat(store, 1)
    assert LARGEST_RESPONSE_BYTES < 25 * 700_000
    async with aclosing(node_pages(store, keys.NODES_PREFIX)) as pages:
        sizes = [[len(item.value) for item in page.items] async for page in pages]
    assert sum(map(len, sizes)) == 28
    assert max(map(sum, sizes)) < LARGEST_RESPONSE_BYTES


# EtcdStore on an etcd with TLS.


def certificate(folder: Path) -> EtcdTls:
    """For 127.0.0.1, of a CA of its own."""
    authority = CertificateAuthority()
    (folder / "ca.pem").write_text(authority.pem)
    return EtcdTls(folder / "ca.pem", *authority.issue("127.0.0.1").write(folder, "server"))


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    folder = tmp_path_factory.mktemp("guarded")
    with Etcd(folder / "data", tls=certificate(folder)) as one:
        yield one


def access(etcd: Etcd, ca: bool = True) -> EtcdAccess:
    assert etcd.tls
    return EtcdAccess((etcd.client_url,), str(etcd.tls.ca) if ca else "")


async def test_a_rotated_ca_is_used_by_the_next_connection_and_an_unusable_one_is_not(
    etcd: Etcd, tmp_path: Path
) -> None:
    assert etcd.tls
    ca = tmp_path / "ca.pem"
    ca.write_text(CertificateAuthority().pem)
    transport = EtcdTransport(structs.replace(access(etcd), ca_file=str(ca)))

    async def connects() -> bool:
        await transport.close()
        transport._tls._next_poll = 0.0
        try:
            await transport.call("/v3/maintenance/status", {}, dict)
        except Unavailable:
            return False
        return True

    assert not await connects()
    ca.write_bytes(etcd.tls.ca.read_bytes())
    assert await connects()
    ca.write_text("-----BEGIN CERTIFICATE-----\nhalf")
    assert await connects()
    assert "must hold certificates in PEM" in transport._tls.problem.text
    await transport.close()
