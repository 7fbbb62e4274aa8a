"""EtcdStore on an etcd with TLS, users and roles, whose tokens live a second."""

import asyncio
import base64
import datetime
import ipaddress
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import structs

from leadsman.state import etcd_json, keys
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import ChangeBatch, Denied, Put, Unavailable
from leadsman.testbed.etcd import Etcd, EtcdTls
from tests.testbed.tcp_proxy import TcpProxy

TOKEN_SECONDS = 1
MINE, THEIRS = keys.node_prefix("mine"), keys.node_prefix("theirs")


def certificate(folder: Path) -> EtcdTls:
    """Signed by itself, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    tls = EtcdTls(folder / "cert.pem", folder / "cert.pem", folder / "key.pem")
    tls.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    tls.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    return tls


def confine(etcd: Etcd, user: str, prefix: str) -> None:
    """A user with a role of the same name, which may do anything under `prefix` and nothing elsewhere."""
    first, last = (base64.b64encode(b).decode() for b in _span(prefix))
    etcd.post("/v3/auth/user/add", {"name": user, "password": "secret"})
    etcd.post("/v3/auth/role/add", {"name": user})
    permission = {"permType": "READWRITE", "key": first, "range_end": last}
    etcd.post("/v3/auth/role/grant", {"name": user, "perm": permission})
    etcd.post("/v3/auth/user/grant", {"user": user, "role": user})


def _span(prefix: str) -> tuple[bytes, bytes]:
    return prefix.encode(), etcd_json.prefix_end(prefix.encode())


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    folder = tmp_path_factory.mktemp("guarded")
    flags = [f"--auth-token-ttl={TOKEN_SECONDS}", "--bcrypt-cost=4"]
    with Etcd(folder / "data", flags=flags, tls=certificate(folder)) as one:
        one.post("/v3/auth/user/add", {"name": "root", "password": "root"})
        one.post("/v3/auth/user/grant", {"user": "root", "role": "root"})
        confine(one, "mine", MINE)
        one.post("/v3/auth/enable", {})
        yield one


def access(etcd: Etcd, user: str = "mine", password: str = "secret", ca: bool = True) -> EtcdAccess:
    assert etcd.tls
    return EtcdAccess((etcd.client_url,), str(etcd.tls.ca) if ca else "", user, password)


@asynccontextmanager
async def opened(access: EtcdAccess) -> AsyncIterator[EtcdStore]:
    store = EtcdStore(access)
    try:
        yield store
    finally:
        await store.close()


async def token_ran_out(etcd: Etcd, store: EtcdStore) -> None:
    """Waits until etcd has forgotten the store's token. Asking for it would prolong it."""
    await asyncio.sleep(TOKEN_SECONDS + 1.5)


async def test_a_user_works_under_the_prefix_of_its_role(etcd: Etcd) -> None:
    async with opened(access(etcd)) as store:
        lease = await store.grant(60)
        await store.write([Put(MINE + "identity", b"1")], lease)
        await store.keep_alive(lease)
        assert [item.key for item in (await store.read_prefix(MINE)).items] == [MINE + "identity"]
        await store.revoke(lease)


async def test_a_user_can_neither_read_nor_write_nor_watch_anothers_prefix(etcd: Etcd) -> None:
    async with opened(access(etcd)) as store:
        with pytest.raises(Denied, match="permission denied"):
            await store.write([Put(THEIRS + "identity", b"")])
        with pytest.raises(Denied, match="permission denied"):
            await store.read_prefix(keys.NODES_PREFIX)
        async with aclosing(store.watch(THEIRS, 1)) as batches:
            with pytest.raises(Denied, match="permission denied"):
                await anext(batches)


@pytest.mark.parametrize(("user", "password"), [("mine", "wrong"), ("nobody", "secret"), ("", "")])
async def test_who_is_not_known_is_denied(etcd: Etcd, user: str, password: str) -> None:
    async with opened(access(etcd, user, password)) as store:
        with pytest.raises(Denied):
            await store.read_prefix(MINE)


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff", "must be UTF-8 text"), (b" \n", "it is empty"), (None, "Is a directory; it must be")],
    ids=["not UTF-8", "empty", "a directory"],
)
async def test_a_password_file_that_turned_bad_is_named_and_the_next_login_reads_it_again(
    etcd: Etcd, tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "password"
    path.mkdir() if content is None else path.write_bytes(content)
    async with opened(structs.replace(access(etcd), password="", password_file=path)) as store:
        with pytest.raises(Denied, match=f"password file {path}: .*{why}"):
            await store.read_prefix(MINE)
        path.rmdir() if content is None else path.unlink()
        path.write_text("secret\n")
        await store.read_prefix(MINE)


async def test_a_password_that_changes_in_etcd_and_then_in_its_file_needs_no_restart(
    etcd: Etcd, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("old")
    async with opened(access(etcd, "root", "root")) as root:

        async def administer(path: str, body: dict[str, str]) -> None:
            await root.transport.call(f"/v3/auth/user/{path}", body, etcd_json.AnyResponse)

        await administer("add", {"name": "rotated", "password": "old"})
        await administer("grant", {"user": "rotated", "role": "mine"})
        async with opened(
            structs.replace(access(etcd, "rotated"), password="", password_file=tmp_path / "password")
        ) as store:
            await store.read_prefix(MINE)
            await administer("changepw", {"name": "rotated", "password": "new"})
            with pytest.raises(Denied, match="authentication failed"):
                await store.read_prefix(MINE)
            (tmp_path / "password").write_text("new")
            await store.read_prefix(MINE)


async def test_a_server_that_the_ca_does_not_vouch_for_is_not_talked_to(etcd: Etcd) -> None:
    async with opened(access(etcd, ca=False)) as store:
        with pytest.raises(Unavailable, match="certificate"):
            await store.read_prefix(MINE)


async def test_one_token_serves_until_it_runs_out_and_then_a_new_one_is_fetched(etcd: Etcd) -> None:
    async with opened(access(etcd)) as store:
        for _ in range(3):
            await store.write([Put(MINE + "a", b"")])
        assert store.transport.logins == 1
        await token_ran_out(etcd, store)
        await store.write([Put(MINE + "a", b"")])
        assert store.transport.logins == 2


async def test_a_watch_begun_with_a_token_that_ran_out_logs_in_again(etcd: Etcd) -> None:
    """etcd says "permission denied" to it, and not that the token is the matter."""
    async with opened(access(etcd)) as store:
        start = (await store.read_prefix(MINE)).revision + 1
        await token_ran_out(etcd, store)
        async with aclosing(store.watch(MINE, start)) as batches:
            assert await anext(batches) == ChangeBatch((), start)
        assert store.transport.logins == 2


async def test_a_token_that_etcd_never_gave_is_exchanged(etcd: Etcd) -> None:
    """As after a restart that lost them."""
    async with opened(access(etcd)) as store:
        store.transport.token = "unheard.1"
        await store.write([Put(MINE + "a", b"")])
        assert store.transport.logins == 1


async def test_a_silent_line_is_closed_at_once_and_not_after_tlss_farewell(etcd: Etcd) -> None:
    async with TcpProxy(etcd.port) as proxy:
        through = structs.replace(access(etcd), endpoints=(f"https://127.0.0.1:{proxy.port}",))
        async with opened(through) as store, aclosing(store.watch(MINE, 1)) as batches:
            await anext(batches)
            proxy.silence()
            await batches.aclose()
            async with asyncio.timeout(60):
                while connections_to(proxy.port):  # noqa: ASYNC110 -- what is waited for has no event
                    await asyncio.sleep(0.01)


def connections_to(port: int) -> int:
    return sum(bool(c.raddr) and c.raddr.port == port for c in psutil.Process().net_connections("tcp"))


async def test_credentials_for_an_etcd_without_users_are_told(tmp_path: Path) -> None:
    with Etcd(tmp_path / "open") as plain:
        async with opened(EtcdAccess((plain.client_url,), user="mine", password="secret")) as store:
            with pytest.raises(Denied, match="not enabled"):
                await store.read_prefix("/")


async def test_a_rotated_ca_is_used_by_the_next_connection_and_an_unusable_one_is_not(
    etcd: Etcd, tmp_path: Path
) -> None:
    assert etcd.tls
    ca = tmp_path / "ca.pem"
    ca.write_bytes(certificate(tmp_path).certificate.read_bytes())
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


def test_a_user_in_an_endpoint_beside_etcds_own_is_refused() -> None:
    """aiohttp refuses each request with both."""
    with pytest.raises(ValueError, match="endpoints have a user in a URL"):
        EtcdAccess(("https://me:s3cret@etcd:2379",), user="agent", password="x")
