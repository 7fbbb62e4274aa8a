"""Three real members behind TLS, with the files of `leadsman certs` and the flags of the component etcd-locked."""

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from leadsman.cli.main import main
from leadsman.etcd.access_control import AccessControl, agent_role
from leadsman.etcd.member_start import EtcdFlags, MemberStart
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import Put, StoreError
from leadsman.testbed.etcd import Etcd, EtcdTls, create_members

WITHIN_SECONDS = 90.0
KEY = "/leadsman/v1/nodes/node-a/heartbeat"

pytestmark = pytest.mark.slow


class LockedMembers:
    """access: with root's password, as the init containers and the issuer have it."""

    def __init__(self, certs: Path, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.all = create_members(folder, 3, flags=[*_peer_flags(certs), "--bcrypt-cost=4"])
        for member in self.all:
            member.tls = EtcdTls(certs / "etcd-ca.crt", certs / "etcd.crt", certs / "etcd.key")
            member.client_url = member.client_url.replace("http:", "https:")
            member.peer_url = member.peer_url.replace("http:", "https:")
        for member in self.all:
            member.initial_cluster = ",".join(f"{other.name}={other.peer_url}" for other in self.all)
        urls = tuple(member.client_url for member in self.all)
        self.access = EtcdAccess(urls, str(certs / "etcd-ca.crt"), "root", password_file=certs / "etcd-root-password")
        self.control = AccessControl(structs.replace(self.access, call_timeout_seconds=15.0))

    async def begin(self, *members: Etcd) -> None:
        """What the init container does, and then the container."""
        async with asyncio.timeout(WITHIN_SECONDS):
            await asyncio.gather(*map(self._begin, members))
        for member in members:
            await asyncio.to_thread(member.wait_until_healthy, WITHIN_SECONDS)

    async def _begin(self, member: Etcd) -> None:
        config = self._folder / f"{member.name}.yaml"
        await MemberStart(EtcdFlags.parse(member.command_flags()), self.access).write_config(config)
        member.config_file = config
        member.start(wait=False)

    async def store_of(self, node: str) -> EtcdStore:
        role = agent_role(node)
        password = await self.control.password(role)
        access = EtcdAccess(self.access.endpoints, self.access.ca_file, role.name, password, call_timeout_seconds=15.0)
        return EtcdStore(access, silence_seconds=30.0)


def _peer_flags(certs: Path) -> list[str]:
    files = {"peer-cert-file": "etcd.crt", "peer-key-file": "etcd.key", "peer-trusted-ca-file": "etcd-ca.crt"}
    return [*(f"--{flag}={certs / name}" for flag, name in files.items()), "--peer-client-cert-auth=true"]


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    folder = tmp_path / "certs"
    assert main(["certs", "create", "--dir", str(folder)]) == 0
    return folder


@pytest.fixture
async def members(certs: Path, tmp_path: Path) -> AsyncIterator[LockedMembers]:
    made = LockedMembers(certs, tmp_path / "etcd")
    yield made
    await made.control.close()
    for member in made.all:
        member.stop()


async def test_they_begin_are_locked_and_a_member_that_lost_its_data_joins_them_again(members: LockedMembers) -> None:
    await members.begin(*members.all)
    await members.control.enable()
    store = await members.store_of("node-a")
    await store.write([Put(KEY, b"kept")])
    lost = members.all[2]
    lost.wipe()
    await members.begin(lost)
    members.all[0].kill()
    async with asyncio.timeout(WITHIN_SECONDS):
        while await _read(store) != [b"kept"]:  # noqa: ASYNC110 -- a client's own attempts
            await asyncio.sleep(0.1)
    await store.close()


async def _read(store: EtcdStore) -> list[bytes]:
    try:
        return [item.value for item in (await store.read_prefix(KEY)).items]
    except StoreError:
        return []


async def test_a_peer_without_the_members_certificate_is_refused(members: LockedMembers, certs: Path) -> None:
    """kube-scheduler's own certificate too: its CA is another one."""
    await members.begin(*members.all)
    for pair in (None, "client", "etcd-issuer"):
        with pytest.raises((urllib.error.URLError, OSError)):
            await asyncio.to_thread(_members_seen_by, members.all[0].peer_url, certs, pair)
    assert await asyncio.to_thread(_members_seen_by, members.all[0].peer_url, certs, "etcd")


def _members_seen_by(peer_url: str, certs: Path, pair: str | None) -> bytes:
    context = ssl.create_default_context(cafile=str(certs / "etcd-ca.crt"))
    if pair:
        context.load_cert_chain(certs / f"{pair}.crt", certs / f"{pair}.key")
    with urllib.request.urlopen(f"{peer_url}/members", timeout=10, context=context) as response:
        return bytes(response.read())
