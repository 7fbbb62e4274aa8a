"""The API server's and our own certificates rotate while a client runs; what cannot work replaces nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from leadsman.cli import certificates
from leadsman.kube import access, kubeconfig
from leadsman.kube.access import ApiAccessError
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import NotFound, Unavailable
from leadsman.kube.objects import Pod
from leadsman.kube.resources import PODS
from tests.leadsman.kube.test_kubeconfig import config as kubeconfig_of
from tests.testbed.certificates import CertificateAuthority, PemPair
from tests.testbed.scripted_api_server import FakeApiServer

NOW = datetime.now(UTC)
OLD, NEW = CertificateAuthority("old"), CertificateAuthority("new")


@asynccontextmanager
async def served(by: CertificateAuthority) -> AsyncIterator[FakeApiServer]:
    """Asks clients for a certificate of the same CA."""
    async with FakeApiServer(tls=by.server_context("127.0.0.1", ask_client=True)) as api:
        yield api


async def talks(client: ApiClient, to: FakeApiServer) -> bool:
    """Over a new connection, with the files as they are now."""
    if client._tls:
        client._tls._next_poll = 0.0
    client.access = msgspec.structs.replace(client.access, url=to.url)
    try:
        await client.get(PODS.path("default", "web-0"), Pod)
    except NotFound:
        return True
    except Unavailable:
        return False
    return True


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of a user with certificate files, as kubelet rotates them."""
    (tmp_path / "ca.crt").write_text(OLD.pem)
    OLD.issue("agent").write(tmp_path, "client")
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    path = tmp_path / "kubeconfig"
    path.write_bytes(msgspec.yaml.encode(kubeconfig_of({"certificate-authority": "ca.crt"}, user)))
    return path


async def test_a_rotated_ca_and_certificate_are_used_by_the_next_connection(config: Path) -> None:
    async with served(OLD) as before, served(NEW) as after, ApiClient(kubeconfig.read_kubeconfig(config)) as client:
        assert await talks(client, before)
        assert not await talks(client, after)
        (config.parent / "ca.crt").write_text(NEW.pem)
        NEW.issue("agent").write(config.parent, "client")
        assert await talks(client, after)


def expired(names: str = "agent") -> PemPair:
    ca = certificates.create_ca(NOW - timedelta(days=9), days=20)
    pair = certificates.issue_client(ca, names, NOW - timedelta(days=9), days=1)
    return PemPair(pair.certificate_pem.decode(), pair.key_pem.decode())


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        (expired().certificate, expired().key, "cannot be used"),
        (*expired(), "no server would accept this client certificate: certificate has expired"),
        (OLD.issue("agent").certificate, NEW.issue("x").key, "cannot be used"),
        ("-----BEGIN CERTIFICATE-----\nhalf", "-----BEGIN PRIVATE KEY-----", "cannot be used"),
        ("", "", "is not PEM"),
    ],
    ids=["two keys", "expired", "another key", "half", "empty"],
)
async def test_a_certificate_that_cannot_work_replaces_nothing_and_is_named(
    config: Path, certificate: str, key: str, why: str
) -> None:
    async with served(OLD) as api, ApiClient(kubeconfig.read_kubeconfig(config)) as client:
        assert await talks(client, api)
        PemPair(certificate, key).write(config.parent, "client")
        assert await talks(client, api)
        assert client._tls is not None
        assert why in client._tls.problem.text
        OLD.issue("agent").write(config.parent, "client")
        assert await talks(client, api)
        assert client._tls.problem.text == ""


async def test_an_expired_ca_replaces_nothing(config: Path) -> None:
    old = certificates.create_ca(NOW - timedelta(days=9), days=1)
    async with served(OLD) as api, ApiClient(kubeconfig.read_kubeconfig(config)) as client:
        (config.parent / "ca.crt").write_bytes(old.certificate_pem)
        assert await talks(client, api)
        assert client._tls is not None
        assert "no CA certificate in it is valid now, so no server would be let in" in client._tls.problem.text


def test_a_user_in_the_url_and_a_token_exclude_each_other_without_showing_the_password(tmp_path: Path) -> None:
    """aiohttp refuses each such request with a ValueError, which ended the process."""
    with pytest.raises(ApiAccessError, match="one request can carry one of them") as refused:
        access.access_from_url("https://me:s3cret@x", token_file=tmp_path / "token")
    assert "s3cret" not in str(refused.value)
