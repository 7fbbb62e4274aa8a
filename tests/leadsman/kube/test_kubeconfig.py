"""kubectl's file, read as kubectl reads it or refused by field."""

import base64
from pathlib import Path

import pytest
import yaml

from leadsman.kube import access, kubeconfig
from leadsman.kube.access import ApiAccess, ApiAccessError, NotInCluster
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import NotFound, Unavailable
from leadsman.kube.objects import Pod
from leadsman.kube.resources import PODS
from tests.testbed.certificates import CertificateAuthority
from tests.testbed.scripted_api_server import FakeApiServer


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def config(cluster=None, user=None, **more):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "web"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
    } | more


@pytest.fixture
def authority():
    return CertificateAuthority()


async def asked(reach):
    async with ApiClient(reach) as client:
        with pytest.raises(NotFound):
            await client.get(PODS.path("default", "web-0"), Pod)


@pytest.fixture
def written(tmp_path: Path):
    def write(content):
        path = tmp_path / "config"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write


@pytest.mark.parametrize("inline", [True, False])
async def test_a_server_is_reached_with_ca_and_certificate_in_the_file_or_beside_it(
    written, tmp_path: Path, authority, inline: bool
) -> None:
    pair = authority.issue("admin")
    pair.write(tmp_path, "admin")
    (tmp_path / "ca.crt").write_text(authority.pem)
    async with FakeApiServer(tls=authority.server_context("127.0.0.1", ask_client=True)) as api:
        named = {"server": api.url, "certificate-authority": "ca.crt"}
        user = {"client-certificate": "admin.crt", "client-key": str(tmp_path / "admin.key")}
        if inline:
            named = {"server": api.url, "certificate-authority-data": encoded(authority.pem)}
            user = {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
        await asked(kubeconfig.read_kubeconfig(written(config(named, user))))


def test_server_namespace_and_token_are_the_contexts(written) -> None:
    found = kubeconfig.read_kubeconfig(written(config({"tls-server-name": "kubernetes"}, {"token": "t0ken"})))
    assert (found.url, found.namespace, found.read_token()) == ("https://10.0.0.1:6443", "web", "t0ken")
    assert found.server_name == "kubernetes"
    assert found.insecure is False


def test_a_list_that_is_null_is_empty(written) -> None:
    alone = config(contexts=[{"name": "here", "context": {"cluster": "c"}}], users=None)
    assert kubeconfig.read_kubeconfig(written(alone)).url == "https://10.0.0.1:6443"


def test_another_context_may_be_named(written) -> None:
    contexts = [{"name": "here", "context": {"cluster": "none"}}, {"name": "there", "context": {"cluster": "c"}}]
    assert kubeconfig.read_kubeconfig(written(config(contexts=contexts)), "there").namespace == "default"


REFUSED = [
    ("{", r"config: "),
    ("a: " + "[" * 5_000, r"config: nested more than 32 deep"),
    ('"\\UFFFFFFFF"', r"config: "),
    (config({"server": "https://[::1"}), r"API server 'https://\[::1' must be http"),
    (config(user={"token": 12345678}), r"users\['u'\]\.user\.token must be text"),
    (config({"certificate-authority-data": "ä"}), r"certificate-authority-data must be PEM in base64"),
    (config({"server": 7}), r"\$\.clusters\[0\]\.cluster\.server: expected str, got int"),
    (config({"proxy-url": "http://p"}), r"proxy-url 'http://p' is not supported"),
    (config(user={"exec": {"command": "aws"}}), r"users\['u'\]\.user\.exec is not supported; use token"),
    (config(user={"as": "root"}), r"user\.as is not supported"),
    (config(user={"client-key-data": "%%%"}), r"client-key-data must be PEM in base64"),
    (config({"certificate-authority": "none.crt"}), r"certificate-authority .*none\.crt: .*No such file"),
    (config(**{"current-context": "gone"}), r"no context 'gone', which current-context names; allowed: here"),
    (config(clusters=[]), r"no cluster 'c', which the context's cluster names; allowed: there is none"),
]


@pytest.mark.parametrize(("content", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_done_is_refused_by_file_and_field(written, content, said) -> None:
    with pytest.raises(ApiAccessError, match=said):
        kubeconfig.read_kubeconfig(written(content))


# Who is trusted, who we are, and what is said when that cannot be.


@pytest.fixture
def account(tmp_path: Path, authority):
    """As kubelet mounts it."""
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "ca.crt").write_text(authority.pem)
    (tmp_path / "namespace").write_text("leadsman")
    return tmp_path


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


async def test_a_server_of_another_ca_is_not_talked_to(account) -> None:
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
