"""The cluster's listener before a real kube-apiserver: tokens of its service accounts, its RBAC, the manifests' rights.

The extender asks with the token of its own ServiceAccount, which has the rights of the component page-service alone.
"""

import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from extender.api import token_access
from extender.api.access import COOKIE
from extender.api.token_access import AUDIENCE
from leadsman.cli.page_proxy import PageProxy, Upstream
from leadsman.kube.access import access_from_url
from leadsman.runtime.http_server import serve
from tests.conftest import Until
from tests.extender.api.conftest import Api, Files, served_before
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MANIFESTS = Path(__file__).parents[3] / "daemonset/components/page-service"
KUBERNETES = "https://kubernetes.default.svc"
GRANTED_SECONDS = 2.0
"""A test waits for its end."""


@pytest.fixture(scope="module")
def kubernetes(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """With the component's objects, a viewer, an operator and a stranger."""
    with KubeApiServer(kubernetes_binaries, tmp_path_factory.mktemp("page") / "kubernetes") as one:
        one.call("POST", "/api/v1/namespaces", {"metadata": {"name": "leadsman"}})
        for account in ("leadsman-extender", "viewer", "operator", "stranger"):
            one.call("POST", "/api/v1/namespaces/leadsman/serviceaccounts", {"metadata": {"name": account}})
        for manifest in yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text()):
            one.call("POST", f"{RBAC}/{manifest['kind'].lower()}s", manifest)
        for manifest in yaml.safe_load_all((MANIFESTS / "service.yaml").read_text()):
            one.call("POST", "/api/v1/namespaces/leadsman/services", manifest)
        for account in ("viewer", "operator"):
            bind(one, account)
        yield one


def bind(kubernetes: KubeApiServer, account: str) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"leadsman-page-{account}"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "leadsman"}
    binding = {"metadata": {"name": f"page-{account}"}, "roleRef": role, "subjects": [subject]}
    kubernetes.call("POST", f"{RBAC}/clusterrolebindings", binding)


def token_of(kubernetes: KubeApiServer, account: str, audience: str = AUDIENCE) -> str:
    """As `kubectl create token ACCOUNT --audience=…` has it made."""
    path = f"/api/v1/namespaces/leadsman/serviceaccounts/{account}/token"
    made = kubernetes.call("POST", path, {"spec": {"audiences": [audience], "expirationSeconds": 600}})
    token: str = made["status"]["token"]
    return token


@pytest.fixture
async def service(
    kubernetes: KubeApiServer, api: Api, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[aiohttp.ClientSession]:
    monkeypatch.setattr(token_access, "GRANTED_SECONDS", GRANTED_SECONDS)
    own_token = tmp_path / "token"
    own_token.write_text(token_of(kubernetes, "leadsman-extender", KUBERNETES))
    access = access_from_url(kubernetes.url, kubernetes.ca_file, own_token)
    async with served_before(access, api, files) as session:
        yield session


async def status_of(
    service: aiohttp.ClientSession, headers: Mapping[str, str], method: str = "GET", path: str = "/api/v1/health"
) -> int:
    body = {"source": "edge-a-0000", "target": "edge-a-0001"} if method == "POST" else None
    async with service.request(method, path, headers=headers, json=body) as response:
        return response.status


def bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def cookie(token: str) -> Mapping[str, str]:
    return {"Cookie": f"{COOKIE}={token}"}


@pytest.mark.parametrize("shown", [bearer, cookie])
@pytest.mark.parametrize(
    ("account", "reads", "posts"), [("viewer", 200, 403), ("operator", 200, 202), ("stranger", 403, 403)]
)
async def test_a_role_of_the_component_lets_an_account_in(
    kubernetes: KubeApiServer,
    service: aiohttp.ClientSession,
    account: str,
    reads: int,
    posts: int,
    shown: Callable[[str], Mapping[str, str]],
) -> None:
    headers = shown(token_of(kubernetes, account))
    assert await status_of(service, headers, path="/") == reads
    assert await status_of(service, headers) == reads
    assert await status_of(service, headers, "POST", "/api/v1/measure") == posts


async def test_a_token_that_is_none_of_ours_is_refused(
    kubernetes: KubeApiServer, service: aiohttp.ClientSession
) -> None:
    valid = token_of(kubernetes, "viewer")
    own_key = load_pem_private_key((kubernetes.folder / "accounts.key").read_bytes(), None)
    assert isinstance(own_key, ec.EllipticCurvePrivateKey)
    an_hour_ago = {"iat": time.time() - 7200, "nbf": time.time() - 7200, "exp": time.time() - 3600}
    refused = {
        "none": {},
        "nonsense": bearer("nonsense"),
        "for the API server": bearer(token_of(kubernetes, "viewer", KUBERNETES)),
        "another cluster's": bearer(signed_again(valid, {}, ec.generate_private_key(ec.SECP256R1()))),
        "expired": bearer(signed_again(valid, an_hour_ago, own_key)),
    }
    assert await status_of(service, bearer(signed_again(valid, {}, own_key))) == 200, "only what is changed is refused"
    assert {what: await status_of(service, headers) for what, headers in refused.items()} == dict.fromkeys(refused, 401)


def signed_again(token: str, changes: Mapping[str, Any], key: ec.EllipticCurvePrivateKey) -> str:
    """The token (RFC 7519) with other claims, signed with ES256 (RFC 7518, 3.4)."""
    head, payload, _ = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    whole_seconds = {name: int(value) for name, value in changes.items()}
    signed = f"{head}.{_base64url(json.dumps(claims | whole_seconds).encode())}"
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_base64url(r.to_bytes(32) + s.to_bytes(32))}"


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


async def test_a_right_that_is_withdrawn_ends_after_the_time_for_which_it_is_remembered(
    kubernetes: KubeApiServer, service: aiohttp.ClientSession, until: Until
) -> None:
    headers, statuses = bearer(token_of(kubernetes, "viewer")), [200]
    assert await status_of(service, headers) == 200
    kubernetes.call("DELETE", f"{RBAC}/clusterrolebindings/page-viewer")
    try:
        while statuses[-1] == 200:
            statuses.append(await status_of(service, headers))
        assert statuses[-1] == 403
    finally:
        bind(kubernetes, "viewer")


async def test_while_the_api_server_is_away_those_who_were_let_in_go_on_and_others_are_told_why(
    kubernetes: KubeApiServer, service: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_access, "GRANTED_SECONDS", 3600.0)
    earlier, later = token_of(kubernetes, "viewer"), token_of(kubernetes, "operator")
    assert await status_of(service, bearer(earlier)) == 200
    kubernetes.stop()
    try:
        assert await status_of(service, bearer(earlier)) == 200
        async with service.get("/api/v1/health", headers=bearer(later)) as response:
            assert response.status == 503
            assert "the API server does not say whose the token is" in (await response.json())["error"]["message"]
    finally:
        kubernetes.start()
    assert await status_of(service, bearer(later)) == 200


async def test_a_one_time_token_opens_nothing_here_and_the_proxy_opens_it_with_a_token_of_the_cluster(
    kubernetes: KubeApiServer, service: aiohttp.ClientSession, files: Files
) -> None:
    token = token_of(kubernetes, "viewer")
    proxy = PageProxy(Upstream(str(service._base_url).rstrip("/"), lambda: token, files.client))
    assert await status_of(service, {}, path=f"/?token={proxy.token}") == 401
    assert await status_of(service, bearer(proxy.token)) == 401
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        serve(proxy.app(), "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=jar) as browser,
    ):
        await proxy.check()
        async with browser.get(f"/?token={proxy.token}") as response:
            assert (response.status, response.content_type) == (200, "text/html")
        assert await status_of(browser, {}) == 200
