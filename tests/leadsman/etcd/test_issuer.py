"""On a real etcd with access control: what each process's token gives it, and what it never gives."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

import aiohttp
import pytest

from agent.node_ownership import claim_node
from leadsman.etcd import issuer as issuer_module
from leadsman.state import keys
from leadsman.state.etcd_credentials import IssuerAccess
from leadsman.state.records import Heartbeat, Identity, RingEntry
from leadsman.state.store import Delete, Denied, KeyRange, Put, StoreError, Unavailable

if TYPE_CHECKING:
    from tests.leadsman.etcd.conftest import Locked

A_HEARTBEAT = keys.record_key("node-a", Heartbeat)
B_HEARTBEAT = keys.record_key("node-b", Heartbeat)


async def test_an_agent_claims_its_node_and_reads_what_it_needs(locked: "Locked") -> None:
    store = locked.store("of-a")
    entry = RingEntry("10.0.0.1")
    claim = await claim_node(store, "node-a", Identity("uid", 0, "10.0.0.1"), 20, entry)
    await store.write([Put(A_HEARTBEAT, b"1")], claim.lease, claim.guard)
    await store.keep_alive(claim.lease)
    await store.read_page(KeyRange(keys.RING_PREFIX, keys.RING_END, 10))
    await store.read_prefix(keys.probes_prefix("node-a"))
    await store.write([Delete(keys.bind_failure_key("node-a", "uid"))], precondition=claim.guard)
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
    ],
)
async def test_nobody_writes_what_is_anothers(locked: "Locked", token: str, key: str) -> None:
    with pytest.raises(Denied):
        await locked.store(token).write([Put(key, b"forged")])


async def test_an_agent_reads_nothing_of_another_node(locked: "Locked") -> None:
    with pytest.raises(Denied):
        await locked.store("of-a").read_prefix(keys.node_prefix("node-b"))


async def test_both_read_all_nodes_and_the_extender_asks_for_probes_and_grants_devices(locked: "Locked") -> None:
    extender, controller = locked.store("of-extender"), locked.store("of-controller")
    lease = await extender.grant(30)
    await extender.write([Put(keys.probe_request_key("node-a", "node-b"), b"{}")], lease)
    await extender.write([Put(keys.bind_failure_key("node-a", "uid"), b"{}")], lease)
    await extender.write([Put(f"{keys.RESERVATIONS_PREFIX}uid", b"{}")], lease)
    assert (await extender.read_prefix(keys.RESERVATIONS_PREFIX)).items
    assert (await extender.read_prefix(keys.NODES_PREFIX)).revision
    assert (await controller.read_prefix(keys.NODES_PREFIX)).revision


async def test_no_agent_ends_another_ones_lease(locked: "Locked") -> None:
    a, b = locked.store("of-a"), locked.store("of-b")
    lease = await b.grant(60)
    await b.write([Put(B_HEARTBEAT, b"1")], lease)
    with pytest.raises(Denied):
        await a.revoke(lease)
    assert [item.lease for item in (await b.read_prefix(keys.node_prefix("node-b"))).items] == [lease]


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("unknown", "does not know this token"),
        ("without-a-node", "names no node"),
        ("for-another-audience", "not for the audience"),
        ("of-a-stranger", "has no part in etcd"),
        ("of-a-person-of-that-name", "has no part in etcd"),
        ("of-an-odd-node", "'no/node', which is no node's name"),
    ],
)
async def test_a_token_that_gives_no_right_gets_the_reason(locked: "Locked", token: str, reason: str) -> None:
    with pytest.raises(Denied, match=reason):
        await locked.store(token).read_prefix(keys.RING_PREFIX)


async def test_a_token_gets_the_credential_of_its_own_node_whatever_it_asks_for(locked: "Locked") -> None:
    issuer = locked.access("of-a").issuer
    assert issuer
    tls = ssl.create_default_context(cafile=issuer.ca_file)
    headers = {"Authorization": "Bearer of-a"}
    async with aiohttp.ClientSession() as session:
        url = f"{issuer.url}/v1/credential?node=node-b&user=agent/node-b"
        async with session.post(url, headers=headers, json={"node": "node-b"}, ssl=tls) as response:
            assert (await response.json())["user"] == "agent/node-a"


@pytest.fixture
def few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five of an address."""
    monkeypatch.setattr(issuer_module, "REQUESTS_AT_ONCE", 5)
    monkeypatch.setattr(issuer_module, "REQUESTS_PER_SECOND", 1e-3)


async def test_without_a_token_nothing_is_issued(locked: "Locked", few_requests: None) -> None:
    issuer = locked.access("of-a").issuer
    assert issuer
    assert [await asked(issuer, {}) for _ in range(6)] == [401] * 6


async def test_one_address_with_junk_leaves_the_others_their_credentials(locked: "Locked", few_requests: None) -> None:
    issuer = locked.access("of-a").issuer
    assert issuer
    assert [await asked(issuer, bearer("junk")) for _ in range(6)] == [403] * 5 + [429]
    assert await asked(issuer, bearer("of-a"), "127.0.0.2") == 200
    assert await asked(issuer, bearer("of-an-odd-node"), "127.0.0.2") == 400


async def test_a_token_that_etcd_does_not_know_any_more_is_replaced(locked: "Locked") -> None:
    """etcd drops one that was not used for 5 minutes."""
    store = locked.store("of-a")
    await store.write([Put(A_HEARTBEAT, b"1")])
    store.transport.token = "expired.1"
    await store.write([Put(A_HEARTBEAT, b"2")])
    assert store.transport.logins == 2


async def test_a_password_that_somebody_changed_is_asked_for_again_and_set_right(locked: "Locked") -> None:
    store = locked.store("of-a")
    await store.write([Put(A_HEARTBEAT, b"1")])
    token = locked.etcd.post("/v3/auth/authenticate", root())["token"]
    locked.etcd.post("/v3/auth/user/changepw", {"name": "agent/node-a", "password": "another"}, token=token)
    await store.write([Put(A_HEARTBEAT, b"2")])


async def test_an_etcd_that_lost_its_data_is_locked_again_and_written_again(locked: "Locked") -> None:
    store = locked.store("of-a", call_timeout_seconds=3.0)
    await store.write([Put(A_HEARTBEAT, b"1")])
    locked.etcd.wipe()
    locked.etcd.start()
    async with asyncio.timeout(120):
        while not await written(store, Put(A_HEARTBEAT, b"2")):  # noqa: ASYNC110 -- an agent's own attempts
            await asyncio.sleep(0.05)
    with pytest.raises(Denied):
        await store.write([Put(B_HEARTBEAT, b"forged")])


async def test_nobody_of_ours_writes_to_an_etcd_that_is_not_locked(locked: "Locked") -> None:
    store = locked.store("of-a")
    locked.etcd.post("/v3/auth/disable", {}, token=locked.etcd.post("/v3/auth/authenticate", root())["token"])
    with pytest.raises((Denied, Unavailable)):
        await store.write([Put(A_HEARTBEAT, b"1")])


async def test_users_that_were_made_while_etcd_was_open_are_removed(locked: "Locked") -> None:
    token = locked.etcd.post("/v3/auth/authenticate", root())["token"]
    locked.etcd.post("/v3/auth/disable", {}, token=token)
    locked.etcd.post("/v3/auth/user/add", {"name": "thief", "password": "x"})
    locked.etcd.post("/v3/auth/user/grant", {"user": "thief", "role": "root"})
    await locked.control.enable()
    token = locked.etcd.post("/v3/auth/authenticate", root())["token"]
    assert locked.etcd.post("/v3/auth/user/list", {}, token=token)["users"] == ["root"]


async def test_a_right_that_somebody_added_to_a_role_goes_with_the_next_credential(locked: "Locked") -> None:
    store = locked.store("of-a")
    await store.read_prefix(keys.RING_PREFIX)
    token = locked.etcd.post("/v3/auth/authenticate", root())["token"]
    locked.etcd.post("/v3/auth/user/grant", {"user": "agent/node-a", "role": "root"}, token=token)
    another = locked.store("of-a")
    with pytest.raises(Denied):
        await another.write([Put(B_HEARTBEAT, b"forged")])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def asked(issuer: IssuerAccess, headers: Mapping[str, str], from_address: str = "127.0.0.1") -> int:
    """The status of a request for a credential."""
    tls = ssl.create_default_context(cafile=issuer.ca_file)
    connector = aiohttp.TCPConnector(local_addr=(from_address, 0))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(f"{issuer.url}/v1/credential", headers=headers, ssl=tls) as response,
    ):
        return response.status


def root() -> dict[str, str]:
    return {"name": "root", "password": "of-root"}


async def written(store, put: Put) -> bool:
    try:
        await store.write([put])
    except StoreError:
        return False
    return True
