"""EtcdStore on an etcd with TLS."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import Unavailable
from leadsman.testbed.etcd import Etcd, EtcdTls
from tests.testbed.certificates import CertificateAuthority
from tests.testbed.tcp_proxy import TcpProxy

MINE = keys.node_prefix("mine")


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


@asynccontextmanager
async def opened(access: EtcdAccess) -> AsyncIterator[EtcdStore]:
    store = EtcdStore(access)
    try:
        yield store
    finally:
        await store.close()


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
