"""With etcd's access control on, the roles that docs/operating.md names are enough, and are no more."""

import asyncio
import base64
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from extender.probe_requests import ProbeRequestQueue
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Identity, RingEntry
from leadsman.state.store import Denied, Put
from leadsman.testbed.etcd import Etcd

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until

NODES = ["edge-1", "edge-2", "edge-3"]
EXTENDER = {("READ", keys.NODES_PREFIX), ("READWRITE", keys.PROBES_PREFIX)}
PASSWORD = "secret"


def role_of(node: str) -> set[tuple[str, str]]:
    """What an agent may do, by prefix."""
    return {
        ("READWRITE", keys.node_prefix(node)),
        ("READWRITE", keys.record_key(node, RingEntry)),
        ("READ", keys.RING_PREFIX),
        ("READ", keys.probes_prefix(node)),
    }


@pytest.fixture
def guarded(etcd: Etcd) -> Etcd:
    """The test's etcd with a user for each node and one for the extender."""
    etcd.post("/v3/auth/user/add", {"name": "root", "password": "root"})
    etcd.post("/v3/auth/user/grant", {"user": "root", "role": "root"})
    for user, permissions in ({node: role_of(node) for node in NODES} | {"extender": EXTENDER}).items():
        admit(etcd, user, permissions)
    etcd.post("/v3/auth/enable", {})
    return etcd


def admit(etcd, user: str, permissions: set[tuple[str, str]]) -> None:
    etcd.post("/v3/auth/user/add", {"name": user, "password": PASSWORD})
    etcd.post("/v3/auth/role/add", {"name": user})
    etcd.post("/v3/auth/user/grant", {"user": user, "role": user})
    for kind, prefix in permissions:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        first, last = (base64.b64encode(text.encode()).decode() for text in (prefix, end))
        permission = {"permType": kind, "key": first, "range_end": last}
        etcd.post("/v3/auth/role/grant", {"name": user, "perm": permission})


def access(etcd, user: str) -> EtcdAccess:
    return EtcdAccess((etcd.client_url,), user=user, password=PASSWORD)


def test_agents_of_these_roles_find_each_other_report_and_serve_requests(
    guarded: Etcd, agent: "Start", until: "Until", tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    agents = [
        agent(node, number, "--etcd-user", node, "--etcd-password-file", str(password), "--max-peers", "1")
        for number, node in enumerate(NODES, start=1)
    ]
    for one in agents:
        until(lambda one=one: one.get("/readyz")[0] == 200, "reports")
        until(lambda one=one: "leadsman_peer_rtt_p50_seconds{" in one.get("/metrics")[1], "a peer measured")
    asyncio.run(ask(guarded, [("edge-1", "edge-2"), ("edge-1", "edge-3")]))
    until(lambda: agents[0].metric('leadsman_probe_requests_total{result="accepted"}') == 2, "both served")


async def ask(etcd, pairs) -> None:
    store = EtcdStore(access(etcd, "extender"))
    requests = ProbeRequestQueue(store)
    requests.enqueue(pairs)
    try:
        await requests.write()
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ("edge-1", keys.record_key("edge-2", Identity)),
        ("edge-1", keys.record_key("edge-2", RingEntry)),
        ("edge-1", keys.probe_request_key("edge-1", "edge-2")),
        ("edge-1", keys.probe_request_key("edge-2", "edge-1")),
        ("extender", keys.record_key("edge-1", Identity)),
        ("extender", keys.record_key("edge-1", RingEntry)),
    ],
)
async def test_nobody_writes_what_is_anothers(guarded: Etcd, user: str, key: str) -> None:
    store = EtcdStore(access(guarded, user))
    try:
        with pytest.raises(Denied):
            await store.write([Put(key, b"forged")])
    finally:
        await store.close()


async def test_an_agent_reads_no_other_nodes_measurements(guarded: Etcd) -> None:
    store = EtcdStore(access(guarded, "edge-1"))
    try:
        with pytest.raises(Denied):
            await store.read_prefix(keys.node_prefix("edge-2"))
    finally:
        await store.close()
