"""EtcdStore on an etcd with TLS."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from leadsman.state.etcd_http import EtcdAccess, EtcdTransport
from leadsman.state.store import Unavailable
from leadsman.testbed.etcd import Etcd, EtcdTls
from tests.testbed.certificates import CertificateAuthority


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
