"""On a real etcd behind its gateway: what each process's token gives it, and what it never gives."""

import base64
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from agent.node_ownership import claim_node
from leadsman.etcd import clients, roles
from leadsman.etcd.gateway import LARGEST_REQUEST_BYTES
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_json import AnyResponse
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Heartbeat, Identity, RingEntry
from leadsman.state.store import Delete, Denied, KeyRange, LeaseLost, Put, StoreError, Unavailable
from tests.leadsman.etcd.conftest import Locked

A_HEARTBEAT = keys.record_key("node-a", Heartbeat)
B_HEARTBEAT = keys.record_key("node-b", Heartbeat)


def text(key: str | bytes) -> str:
    return base64.b64encode(key if isinstance(key, bytes) else key.encode()).decode()


def delete(key: str) -> dict[str, Any]:
    return {"request_delete_range": {"key": text(key)}}


def put(key: str, lease: int = 0) -> dict[str, Any]:
    return {"request_put": {"key": text(key), "value": text("forged"), "lease": str(lease)}}


async def test_an_agent_claims_its_node_and_reads_what_it_needs(locked: Locked) -> None:
    store = locked.store("of-a")
    entry = RingEntry("10.0.0.1")
    claim = await claim_node(store, "node-a", Identity("uid", 0, "10.0.0.1"), 20, entry)
    await store.write([Put(A_HEARTBEAT, b"1")], claim.lease, claim.guard)
    await store.keep_alive(claim.lease)
    await store.read_page(KeyRange(keys.RING_PREFIX, keys.RING_END, 10))
    await store.read_prefix(keys.probes_prefix("node-a"))
    await store.write([Delete(keys.bind_failure_key("node-a", "uid"))], 0, claim.guard)
    await store.revoke(claim.lease)
    assert (await store.read_prefix(keys.node_prefix("node-a"))).items == ()


@pytest.mark.parametrize(
    ("token", "key"),
    [
        ("of-a", B_HEARTBEAT),
        ("of-a", keys.record_key("node-b", RingEntry)),
        ("of-a", keys.bind_failure_key("node-b", "uid")),
        ("of-a", keys.probe_request_key("node-a", "node-b")),
        ("of-extender", A_HEARTBEAT),
        ("of-extender", keys.record_key("node-a", RingEntry)),
        ("of-controller", A_HEARTBEAT),
        ("of-controller", keys.probe_request_key("node-a", "node-b")),
        ("of-a-member", A_HEARTBEAT),
    ],
)
async def test_nobody_writes_what_is_anothers(locked: Locked, token: str, key: str) -> None:
    for write in (Put(key, b"forged"), Delete(key)):
        with pytest.raises(Denied, match="may not write"):
            await locked.store(token).write([write])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v3/kv/range", {"key": text(B_HEARTBEAT)}, id="another's key"),
        pytest.param("/v3/kv/range", {"key": text(A_HEARTBEAT), "range_end": text(b"\0")}, id="all that follows"),
        pytest.param("/v3/kv/range", {"key": text(b"\0"), "range_end": text(b"\0")}, id="all keys"),
        pytest.param("/v3/kv/range", {"key": text(A_HEARTBEAT), "rangeEnd": text(b"\0")}, id="a field's other name"),
        pytest.param("/v3/kv/put", {"key": text(A_HEARTBEAT)}, id="a call that we never send"),
        pytest.param("/v3/kv/txn", {"success": [{"request_txn": {"success": [put(B_HEARTBEAT)]}}]}, id="nested"),
        pytest.param("/v3/kv/txn", {"failure": [put(B_HEARTBEAT)]}, id="in the other branch"),
        pytest.param("/v3/kv/txn", {"compare": [{"key": text(B_HEARTBEAT), "target": "CREATE"}]}, id="by comparing"),
        pytest.param("/v3/kv/txn", {"success": [put(A_HEARTBEAT, 7)]}, id="on a lease of nobody"),
        pytest.param("/v3/lease/revoke", {"ID": "7"}, id="to end a lease of nobody"),
        pytest.param("/v3/lease/grant", {"TTL": "20", "ID": "7"}, id="a lease's number"),
        pytest.param("/v3/lease/grant", {"TTL": "9000000000"}, id="285 years"),
        pytest.param("/v3/lease/grant", {"TTL": "0000000001999999999"}, id="63 years behind zeros"),
        pytest.param(
            "/v3/watch", {"create_request": {"key": text(b"\0"), "range_end": text(b"\0")}}, id="to watch all"
        ),
        pytest.param("/v3/auth/enable", {}, id="etcd's own users"),
        pytest.param("/v3/maintenance/snapshot", {}, id="the whole file"),
        pytest.param("/v3/cluster/member/list", {}, id="the members"),
        pytest.param("/v3/kv/range", {"key": text("x" * LARGEST_REQUEST_BYTES)}, id="too large"),
    ],
)
async def test_an_agent_is_refused_whatever_else_it_asks(locked: Locked, path: str, body: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match=r"may not|is none of|unknown field|lasts 1 to|more than") as refused:
        await locked.store("of-a").transport.call(path, body, AnyResponse)
    assert not isinstance(refused.value, Unavailable)


async def test_no_agent_renews_ends_or_uses_another_ones_lease(locked: Locked) -> None:
    a, b = locked.store("of-a"), locked.store("of-b")
    lease = await b.grant(60)
    await b.write([Put(B_HEARTBEAT, b"1")], lease)
    await a.revoke(lease)
    for theft in (a.keep_alive(lease), a.write([Put(A_HEARTBEAT, b"1")], lease)):
        with pytest.raises(LeaseLost):
            await theft
    assert [item.lease for item in (await b.read_prefix(keys.node_prefix("node-b"))).items] == [lease]


async def test_extender_and_controller_read_all_nodes_and_the_extender_asks_and_reserves(locked: Locked) -> None:
    extender, controller = locked.store("of-extender"), locked.store("of-controller")
    lease = await extender.grant(30)
    await extender.write([Put(keys.probe_request_key("node-a", "node-b"), b"{}")], lease)
    await extender.write([Put(keys.bind_failure_key("node-a", "uid"), b"{}")], lease)
    await extender.write([Put(f"{keys.RESERVATIONS_PREFIX}uid", b"{}")], lease)
    assert (await extender.read_prefix(keys.RESERVATIONS_PREFIX)).items
    assert (await extender.read_prefix(keys.NODES_PREFIX)).revision
    async with aclosing(controller.watch(keys.NODES_PREFIX, 1)) as batches:
        assert await anext(batches)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("unknown", "does not know this token"),
        ("without-a-node", "names no node"),
        ("for-another-audience", "not for the audience"),
        ("of-a-stranger", "has no part in etcd"),
        ("of-a-person-of-that-name", "has no part in etcd"),
        ("of-an-odd-node", "'no/node', which is no node's name"),
        ("", "it is empty"),
    ],
)
async def test_a_token_that_gives_no_right_gets_the_reason(locked: Locked, token: str, reason: str) -> None:
    with pytest.raises(Denied, match=reason):
        await locked.store(token).read_prefix(keys.RING_PREFIX)


async def test_a_stolen_token_ends_with_its_pod_also_while_the_api_server_is_away_again(locked: Locked) -> None:
    store = locked.store("of-a")
    await store.write([Put(A_HEARTBEAT, b"1")])
    del locked.reviewer.tokens["of-a"]
    locked.now += clients.REVIEW_AGAIN_SECONDS
    with pytest.raises(Denied, match="does not know this token"):
        await store.write([Put(A_HEARTBEAT, b"2")])
    locked.reviewer.away = True
    with pytest.raises(Unavailable, match="whose token"):
        await store.write([Put(A_HEARTBEAT, b"3")])


async def test_a_token_is_reviewed_once_and_outlives_an_api_server_that_is_away_but_not_itself(locked: Locked) -> None:
    store = locked.store("of-a")
    for _ in range(3):
        await store.write([Put(A_HEARTBEAT, b"1")])
    assert locked.reviewer.reviews == 1
    locked.reviewer.away = True
    locked.now += clients.REVIEW_AGAIN_SECONDS
    await store.write([Put(A_HEARTBEAT, b"2")])
    locked.now += clients.TRUSTED_WITHOUT_REVIEW_SECONDS
    with pytest.raises(Unavailable, match="whose token"):
        await store.write([Put(A_HEARTBEAT, b"3")])


async def test_who_shows_ever_new_tokens_keeps_neither_the_api_server_busy_nor_who_is_known_out(locked: Locked) -> None:
    known = locked.store("of-a")
    await known.write([Put(A_HEARTBEAT, b"1")])
    for number in range(2 * clients.REVIEWS_AT_ONCE):
        with pytest.raises(StoreError):
            await locked.store(f"guess-{number}").read_prefix(keys.RING_PREFIX)
    assert locked.reviewer.reviews <= clients.REVIEWS_AT_ONCE
    await known.write([Put(A_HEARTBEAT, b"2")])
    assert (await locked.clients.of_token("of-b", "10.0.0.2")).role.name == "agent/node-b"


@pytest.mark.parametrize(
    ("what", "refusal"),
    [
        ("requests", "requests a second"),
        ("bytes", "bytes a second"),
        ("leases", "more leases than"),
        ("keys", "1100 keys"),
        ("streams", "requests open"),
    ],
)
async def test_one_agent_gets_no_more_than_it_needs_and_the_others_all_they_need(
    locked: Locked, what: str, refusal: str
) -> None:
    """With a stolen token, as much of one thing as it can; the clock of the limits stands still."""
    thief, honest = locked.store("of-a"), locked.store("of-b")
    watches: list[Any] = []
    large = [Put(A_HEARTBEAT, bytes(LARGEST_REQUEST_BYTES // 2))]

    async def attack() -> None:
        for number in range(1000):
            if what == "requests":
                await thief.read_prefix(keys.RING_PREFIX)
            elif what == "bytes":
                await thief.write(large)
            elif what == "leases":
                await thief.grant(roles.LONGEST_LEASE_SECONDS)
            elif what == "keys":
                locked.now += 60.0
                types = (f"type-{number}-{each}" for each in range(100))
                await thief.write([Put(keys.reward_key("node-a", pod_type), b"1") for pod_type in types])
            else:
                watches.append(thief.watch(keys.node_prefix("node-a"), 1))
                await anext(watches[-1])

    with pytest.raises(Unavailable, match=refusal):
        await attack()
    for watch in watches:
        await watch.aclose()
    lease = await honest.grant(20)
    await honest.write([Put(B_HEARTBEAT, b"1")], lease)
    stored = await locked.store("of-extender").read_prefix(keys.rewards_prefix("node-a"))
    assert len(stored.items) <= clients.MOST_KEYS


async def test_keys_that_another_gateway_deleted_count_no_more(locked: Locked) -> None:
    agent, elsewhere = locked.store("of-a"), EtcdStore(EtcdAccess((locked.etcd.client_url,)))
    for number in range(clients.MOST_KEYS // 100 + 2):
        locked.now += 60.0
        written = [keys.reward_key("node-a", f"type-{number}-{each}") for each in range(100)]
        await agent.write([Put(key, b"1") for key in written])
        await elsewhere.write([Delete(key) for key in written])
    await elsewhere.close()


async def test_writes_under_way_count_while_the_keys_in_etcd_are_counted_again() -> None:
    client = clients.Client(roles.agent_role("node-a"), lambda: 0.0)

    def wanted(name: str, number: int) -> roles.Authorised:
        written = (keys.reward_key("node-a", f"{name}-{each}").encode() for each in range(number))
        return roles.Authorised(b"", frozenset(written))

    client.take("/v3/kv/txn", wanted("before", clients.MOST_KEYS - 2))

    async def none_stored_yet() -> frozenset[bytes]:
        client.take("/v3/kv/txn", wanted("meanwhile", 1))
        return frozenset()

    assert client.needs_recount(wanted("more", 3))
    await client.recount(none_stored_yet)
    with pytest.raises(roles.TooMuch):
        client.take("/v3/kv/txn", wanted("more", 2))


@pytest.mark.parametrize(("answer", "is_refused"), [(b'{"succeeded": true}', True), (b"{}", False)])
def test_a_key_that_only_the_other_branch_would_have_deleted_still_counts(answer: bytes, is_refused: bool) -> None:
    client, stored, refusals = clients.Client(roles.agent_role("node-a"), lambda: 0.0), list[str](), 0
    for number in range(clients.MOST_KEYS // 50 + 1):
        rewards = [keys.reward_key("node-a", f"type-{number}-{each}") for each in range(50)]
        body = {"success": [put(key) for key in rewards], "failure": [delete(key) for key in stored]}
        wanted = roles.authorise(client.role, "/v3/kv/txn", msgspec.json.encode(body))
        try:
            client.take("/v3/kv/txn", wanted)
        except roles.TooMuch:
            refusals += 1
        client.count_deletes(wanted, answer)
        stored = rewards
    assert refusals == is_refused


async def test_what_one_member_denies_another_is_asked(locked: Locked, tmp_path: Path) -> None:
    """As when one API server has not heard of a pod yet."""
    odd = type(locked)(locked.etcd, locked.tls, tmp_path)
    odd.reviewer.tokens = {}
    async with AsyncExitStack() as stack:
        await odd.serve(stack)
        store = EtcdStore(structs.replace(locked.access("of-a"), endpoints=(odd.url, locked.url)), silence_seconds=20.0)
        stack.push_async_callback(store.close)
        with pytest.raises(Denied, match="does not know this token"):
            await store.write([Put(A_HEARTBEAT, b"1")])
        await store.write([Put(A_HEARTBEAT, b"1")])
