"""Who is trusted, who we are, and what is said when that cannot be."""

from pathlib import Path

import pytest

from leadsman.kube import access
from leadsman.kube.access import ApiAccess, NotInCluster
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import NotFound, Unavailable
from leadsman.kube.objects import Pod
from leadsman.kube.resources import PODS
from tests.testbed.certificates import CertificateAuthority
from tests.testbed.scripted_api_server import FakeApiServer


@pytest.fixture
def authority():
    return CertificateAuthority()


@pytest.fixture
def account(tmp_path: Path, authority):
    """As kubelet mounts it."""
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "ca.crt").write_text(authority.pem)
    (tmp_path / "namespace").write_text("leadsman")
    return tmp_path


async def asked(reach):
    async with ApiClient(reach) as client:
        with pytest.raises(NotFound):
            await client.get(PODS.path("default", "web-0"), Pod)


async def test_in_a_cluster_the_server_is_verified_by_the_accounts_ca_and_told_its_token(account, authority) -> None:
    async with FakeApiServer(token="t0ken", tls=authority.server_context("127.0.0.1")) as api:
        port = api.url.rpartition(":")[2]
        found = access.in_cluster_access(
            {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT_HTTPS": port}, account
        )
        await asked(found)
    assert found.namespace == "leadsman"


def test_an_ipv6_host_is_put_in_brackets(account) -> None:
    found = access.in_cluster_access({"KUBERNETES_SERVICE_HOST": "fd00::1"}, account)
    assert found.url == "https://[fd00::1]:443"


@pytest.mark.parametrize("environ", [{}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}])
def test_outside_of_a_cluster_the_url_must_be_given(tmp_path: Path, environ) -> None:
    with pytest.raises(NotInCluster, match="name the API server with --kube-api"):
        access.in_cluster_access(environ, tmp_path)


async def test_a_server_of_another_ca_is_not_talked_to(account, authority) -> None:
    async with (
        FakeApiServer(tls=CertificateAuthority().server_context("127.0.0.1")) as api,
        ApiClient(access.access_from_url(api.url, account / "ca.crt")) as client,
    ):
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await client.get(PODS.path(), Pod)
    assert api.requests == []


async def test_a_server_that_is_not_verified_is_warned_of(authority, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApiServer(tls=authority.server_context("127.0.0.1")) as api:
        await asked(ApiAccess(api.url, insecure=True))
    assert f"TLS certificate of {api.url} is not verified" in caplog.text


def test_secrets_are_not_shown() -> None:
    shown = repr(ApiAccess("https://x", token="s3cret", key="k3y"))
    assert "s3cret" not in shown
    assert "k3y" not in shown
