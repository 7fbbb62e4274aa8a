"""Claims against what a stranger wrote under the node's prefix, on a real etcd."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from agent.node_ownership import NodeAlreadyOwned, NodeOwnership, claim_node
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.follower import Follower
from leadsman.state.records import Heartbeat, Identity, decode_record, encode_record
from leadsman.state.snapshot import Freshness
from leadsman.state.store import KeyRange, Put
from leadsman.testbed.etcd import Etcd
from tests.conftest import Until
from tests.testbed.background import running

NODE = "edge-1"
KEY = keys.record_key(NODE, Identity)
FORGED = encode_record(Identity("uid-forged", 1, "10.9.9.9"))
JUNK = [FORGED, b"", b"not JSON", b"x" * 100_000]


@pytest.fixture
async def store(etcd: Etcd) -> AsyncIterator[EtcdStore]:
    one = EtcdStore(EtcdAccess((etcd.client_url,), call_timeout_seconds=30.0), silence_seconds=60.0)
    etcd.post("/v3/kv/deleterange", {"key": "AA==", "range_end": "AA=="})
    yield one
    await one.close()


async def claim(store: EtcdStore, owner: str = "uid-1") -> NodeOwnership:
    return await claim_node(store, NODE, Identity(owner, 0, "10.0.0.1"), 20)


async def stored_owner(store: EtcdStore) -> str:
    (listing,) = await store.read_ranges([KeyRange.single_key(KEY)])
    return decode_record(Identity, listing.items[0].value).owner


@pytest.mark.parametrize("value", JUNK, ids=["forged", "empty", "not JSON", "large"])
async def test_an_identity_without_a_lease_is_taken_over_and_the_log_says_from_whom(
    store: EtcdStore, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await store.write([Put(KEY, value)])
    await claim(store)
    assert await stored_owner(store) == "uid-1"
    holder = "uid-forged" if value == FORGED else "unknown"
    assert f"agent (owner uid-1) takes over the records of node edge-1 from owner {holder}" in caplog.text


@pytest.mark.parametrize("value", JUNK[:2], ids=["forged", "empty"])
async def test_an_identity_under_a_lease_is_left_and_the_refusal_names_its_holder_and_its_lease(
    store: EtcdStore, value: bytes
) -> None:
    lease = await store.grant(60)
    await store.write([Put(KEY, value)], lease)
    holder = "uid-forged" if value == FORGED else "unknown"
    with pytest.raises(
        NodeAlreadyOwned, match=rf"owner {holder}.* owns the records of node edge-1.* etcdctl lease revoke {lease:x}$"
    ):
        await claim(store)
    await store.revoke(lease)
    await claim(store)
    assert await stored_owner(store) == "uid-1"


async def test_of_two_agents_that_take_junk_over_one_wins(store: EtcdStore) -> None:
    """The transaction is guarded by the junk itself."""
    await store.write([Put(KEY, b"junk")])
    claims = await asyncio.gather(claim(store, "uid-1"), claim(store, "uid-2"), return_exceptions=True)
    won = [each for each in claims if isinstance(each, NodeOwnership)]
    lost = [each for each in claims if isinstance(each, NodeAlreadyOwned)]
    assert (len(won), len(lost)) == (1, 1)
    assert await stored_owner(store) == won[0].identity.owner


@pytest.mark.parametrize("interval", ["121", "1e300", "1e999"])
async def test_a_heartbeat_whose_interval_no_agent_may_have_makes_no_node_fresh(
    store: EtcdStore, interval: str, until: Until
) -> None:
    follower, key = Follower(store), keys.record_key("liar", Heartbeat)
    async with running(follower.run()):
        await until(follower.loaded.is_set)
        for seq in (1, 2):
            forged = f'{{"v":1,"epoch":1,"seq":{seq},"push_interval_seconds":{interval}}}'
            revision = await store.write([Put(key, forged.encode())])
        await until(lambda: follower.current.revision >= revision)
    assert [
        node for node in follower.current.nodes.values() if node.freshness(time.monotonic()) is Freshness.FRESH
    ] == []
    assert list(follower.current.problems) == [key]
