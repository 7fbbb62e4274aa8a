"""`leadsman etcd-member` and an agent as processes, on a locked etcd and a real kube-apiserver.

The tokens are those of real service accounts: the API server itself wrote the node into them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli.main import main
from leadsman.etcd.clients import AUDIENCE
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Heartbeat, Identity
from leadsman.state.store import Denied, Put, StoreError
from leadsman.testbed.etcd import Etcd, free_ports
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.kube_apiserver import KubeApiServer
from tests.testbed.paper_cluster import install

pytestmark = pytest.mark.slow

ACCOUNTS = "/api/v1/namespaces/leadsman/serviceaccounts"
WITHIN_SECONDS = 240.0
"""On a machine that others keep busy."""
PODS = "/api/v1/namespaces/leadsman/pods"
GATEWAY = "system:serviceaccount:leadsman:leadsman-etcd"


class Cluster:
    """The API server, and etcd behind the process of its gateway. folder: of all files."""

    def __init__(self, api: KubeApiServer, folder: Path) -> None:
        self.api, self.folder = api, folder
        port, ops = free_ports(2)
        self.url = f"https://localhost:{port}"
        certs = folder / "certs"
        self.etcd = Etcd(folder / "etcd")
        self.etcd.config_file = folder / "etcd.yaml"
        command = [
            *("etcd-member", f"--config={self.etcd.config_file}"),
            *(f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{ops}", f"--etcd={self.url}"),
            *(f"--tls-cert={certs}/etcd.crt", f"--tls-key={certs}/etcd.key", f"--etcd-ca={certs}/etcd-ca.crt"),
            *(f"--kubeconfig={api.kubeconfig(GATEWAY)}", "--", *self.etcd.command_flags()),
        ]
        self._gateway = LeadsmanProcess(command, self.url, f"http://127.0.0.1:{ops}", folder / "gateway.log")
        while not self.etcd.config_file.exists():
            time.sleep(0.05)
        self.etcd.start()

    def pod(self, name: str, node: str, account: str = "leadsman-agent") -> dict[str, Any]:
        container = {"name": "main", "image": "none"}
        spec = {"nodeName": node, "serviceAccountName": account, "containers": [container]}
        made: dict[str, Any] = self.api.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        return made

    def token_file(self, pod: dict[str, Any]) -> Path:
        """The token that kubelet would project into this pod: bound to it, for etcd's audience alone."""
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        asked = {"spec": {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": bound}}
        account = pod["spec"]["serviceAccountName"]
        given = self.api.call("POST", f"{ACCOUNTS}/{account}/token", asked)
        file = self.folder / f"token-of-{pod['metadata']['name']}"
        file.write_text(given["status"]["token"])
        return file

    def access(self, token_file: Path) -> EtcdAccess:
        return EtcdAccess((self.url,), str(self.folder / "certs/etcd-ca.crt"), token_file)

    def stop(self) -> None:
        self._gateway.stop()
        self.etcd.stop()


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("locked")
    certs = folder / "certs"
    assert main(["certs", "create", "--dir", str(certs)]) == 0
    with KubeApiServer(kubernetes_binaries, folder / "kubernetes", users={GATEWAY: ()}) as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "leadsman"}})
        for name in ("leadsman-agent", "leadsman-extender"):
            api.call("POST", ACCOUNTS, {"metadata": {"name": name}})
        for node in ("node-a", "node-b"):
            api.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})
        install(api, "base/serviceaccounts.yaml")
        made = Cluster(api, folder)
        yield made
        made.stop()


@pytest.fixture
async def store_of(cluster: Cluster) -> AsyncIterator[Any]:
    """`store_of(pod)`: a store with the credential that the pod's token gives, once the gateway answers."""
    opened: list[EtcdStore] = []

    def store(pod: dict[str, Any]) -> EtcdStore:
        opened.append(EtcdStore(cluster.access(cluster.token_file(pod))))
        return opened[-1]

    yield store
    for each in opened:
        await each.close()


async def reason_of(access: EtcdAccess) -> str:
    """Why a new process with this access is refused; "" when it is not."""
    store = EtcdStore(access)
    try:
        return str(await outcome(store, keys.record_key("node-a", Heartbeat)) or "")
    finally:
        await store.close()


async def outcome(store: EtcdStore, key: str) -> StoreError | None:
    """What writing the key ends in, once gateway and etcd answer."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            try:
                await store.write([Put(key, b"1")])
            except Denied as error:
                return error
            except StoreError:
                await asyncio.sleep(0.1)
            else:
                return None


async def test_a_token_gives_its_own_node_and_nothing_once_its_pod_is_gone(cluster: Cluster, store_of: Any) -> None:
    pod = cluster.pod("agent-a", "node-a")
    store = store_of(pod)
    assert await outcome(store, keys.record_key("node-a", Heartbeat)) is None
    assert await outcome(store, keys.record_key("node-b", Heartbeat)) is not None
    token = cluster.token_file(pod)
    cluster.api.call("DELETE", f"{PODS}/agent-a?gracePeriodSeconds=0")
    # kube-apiserver remembers for some 10 s that it knew a token.
    async with asyncio.timeout(WITHIN_SECONDS):
        while "does not know this token" not in await reason_of(cluster.access(token)):  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0.2)


async def test_an_agent_process_claims_its_node(cluster: Cluster, store_of: Any) -> None:
    pod = cluster.pod("agent-b", "node-b")
    (port,) = free_ports(1)
    command = [
        *("agent", "--node-name=node-b", f"--owner={pod['metadata']['uid']}"),
        *(f"--listen=127.0.0.1:{port}", "--address=127.0.0.1", "--pods=off", f"--etcd={cluster.url}"),
        *(f"--etcd-ca={cluster.folder}/certs/etcd-ca.crt", f"--etcd-token-file={cluster.token_file(pod)}"),
    ]
    agent = LeadsmanProcess(command, "", "", cluster.folder / "agent.log")
    reader = store_of(cluster.pod("another-extender", "node-a", "leadsman-extender"))
    try:
        async with asyncio.timeout(WITHIN_SECONDS):
            while not await items(reader, keys.record_key("node-b", Identity)):  # noqa: ASYNC110 -- our own attempts
                await asyncio.sleep(0.1)
    finally:
        agent.stop()
    assert not await items(reader, keys.record_key("node-b", Identity)), "it revoked its lease"


async def items(store: EtcdStore, key: str) -> tuple[Any, ...]:
    try:
        listing = await store.read_prefix(keys.NODES_PREFIX)
    except StoreError:
        return ()
    return tuple(item for item in listing.items if item.key == key)
