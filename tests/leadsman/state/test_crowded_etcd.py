"""A crowded prefix on a real etcd: the other nodes stay fresh, and what is too large is not loaded."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from leadsman.state import keys
from leadsman.state.etcd_http import LARGEST_RESPONSE_BYTES, EtcdAccess, EtcdTransport
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.follower import Follower, node_pages
from leadsman.state.records import Reward, encode_record
from leadsman.state.snapshot import Freshness
from leadsman.state.store import Put, Unavailable
from leadsman.testbed.etcd import Etcd, EtcdTls
from tests.leadsman.state.conftest import put_beat, seen_beat
from tests.testbed.background import running
from tests.testbed.certificates import CertificateAuthority
from tests.waiting import until

REWARD_KEYS = 2_000


@pytest.fixture
async def store(own_etcd: Etcd) -> AsyncIterator[EtcdStore]:
    """Patient: pages of megabytes take a busy machine a while."""
    one = EtcdStore(EtcdAccess((own_etcd.client_url,), call_timeout_seconds=30.0), silence_seconds=60.0)
    yield one
    await one.close()


@pytest.fixture
async def follower(store: EtcdStore) -> AsyncIterator[Follower]:
    """One that has loaded a store of which one node is crowded."""
    await crowd(store)
    one = Follower(store)
    async with running(one.run()):
        await until(one.loaded.is_set)
        yield one


async def crowd(store: EtcdStore, healthy: float = 0.0) -> None:
    value = encode_record(Reward(0.0, healthy=healthy))
    await store.write([Put(keys.reward_key("crowded", f"type-{n:05}"), value) for n in range(REWARD_KEYS)])


async def beat(store: EtcdStore, seq: int) -> None:
    await store.write([put_beat(seq, node) for node in ("a", "crowded", "z")])


async def test_all_nodes_are_fresh_beside_and_under_a_crowded_prefix(store: EtcdStore, follower: Follower) -> None:
    await beat(store, 1)
    await crowd(store, 1.0)
    await beat(store, 2)
    await until(lambda: seen_beat(follower, "z") == 2)
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


async def test_a_rotated_ca_is_used_by_the_next_connection_and_an_unusable_one_is_not(tmp_path: Path) -> None:
    authority, ca, trusted = CertificateAuthority(), tmp_path / "ca.pem", tmp_path / "trusted.pem"
    ca.write_text(authority.pem)
    trusted.write_text(CertificateAuthority().pem)
    with Etcd(tmp_path / "data", tls=EtcdTls(ca, *authority.issue("127.0.0.1").write(tmp_path, "server"))) as etcd:
        transport = EtcdTransport(EtcdAccess((etcd.client_url,), str(trusted)))

        async def connects() -> bool:
            await transport.close()
            transport._tls._next_poll = 0.0
            try:
                await transport.call("/v3/maintenance/status", {}, dict)
            except Unavailable:
                return False
            return True

        assert not await connects()
        trusted.write_text(authority.pem)
        assert await connects()
        trusted.write_text("-----BEGIN CERTIFICATE-----\nhalf")
        assert await connects()
        assert "must hold certificates in PEM" in transport._tls.problem.text
        await transport.close()
