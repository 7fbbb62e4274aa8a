"""A real etcd behind TLS and access control, and an issuer of its credentials whose tokens a table knows."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from leadsman.etcd.access_control import AccessControl
from leadsman.etcd.issuer import AUDIENCE, NODE_CLAIM, Issuer, create_app
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.runtime.http_server import serve
from leadsman.runtime.server_tls import ServerTls
from leadsman.state.etcd_credentials import IssuerAccess
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.testbed.etcd import Etcd, EtcdTls
from tests.testbed.certificates import CertificateAuthority

ROOT_PASSWORD = "of-root"


def status(account: str, node: str = "", audience: str = AUDIENCE) -> dict[str, Any]:
    """What an API server says of a service account's token in the namespace leadsman."""
    extra = {NODE_CLAIM: [node]} if node else {}
    user = {"username": f"system:serviceaccount:leadsman:{account}", "extra": extra}
    return {"authenticated": True, "user": user, "audiences": [audience]}


TOKENS = {
    "of-a": status("leadsman-agent", "node-a"),
    "of-b": status("leadsman-agent", "node-b"),
    "of-extender": status("leadsman-extender", "node-a"),
    "of-controller": status("leadsman-controller", "node-b"),
    "without-a-node": status("leadsman-agent"),
    "for-another-audience": status("leadsman-agent", "node-a", "https://kubernetes.default.svc"),
    "of-a-stranger": status("default", "node-a"),
    "of-a-person-of-that-name": {
        "authenticated": True,
        "user": {"username": "leadsman-extender"},
        "audiences": [AUDIENCE],
    },
    "of-an-odd-node": status("leadsman-agent", "no/node"),
}
"""What the API server of these tests knows."""


class Locked:
    """The locked etcd and its issuer. store(token): a store of the process with this token."""

    def __init__(self, etcd: Etcd, issuer: Issuer, control: AccessControl, issuer_url: str, folder: Path) -> None:
        self.etcd, self.issuer, self.control = etcd, issuer, control
        self._url, self._folder, self._stores = issuer_url, folder, list[EtcdStore]()

    def access(self, token: str, call_timeout_seconds: float = 10.0) -> EtcdAccess:
        file = self._folder / f"token-{token}"
        file.write_text(token)
        ca = str(self._folder / "ca.crt")
        issuer = IssuerAccess(self._url, file, ca)
        return EtcdAccess((self.etcd.client_url,), ca, issuer=issuer, call_timeout_seconds=call_timeout_seconds)

    def store(self, token: str, call_timeout_seconds: float = 10.0) -> EtcdStore:
        access = self.access(token, call_timeout_seconds)
        self._stores.append(EtcdStore(access, silence_seconds=2 * call_timeout_seconds))
        return self._stores[-1]

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


@pytest.fixture
def tls(tmp_path: Path) -> EtcdTls:
    authority = CertificateAuthority()
    (tmp_path / "ca.crt").write_text(authority.pem)
    certificate, key = authority.issue("127.0.0.1", "localhost").write(tmp_path, "server")
    return EtcdTls(tmp_path / "ca.crt", certificate, key)


@pytest.fixture
def etcd(tmp_path: Path, tls: EtcdTls) -> Iterator[Etcd]:
    with Etcd(tmp_path / "etcd", tls=tls, flags=["--bcrypt-cost=4"]) as one:
        yield one


@pytest.fixture
def root_access(tmp_path: Path, etcd: Etcd, tls: EtcdTls) -> EtcdAccess:
    password = tmp_path / "root-password"
    password.write_text(ROOT_PASSWORD)
    return EtcdAccess((etcd.client_url,), str(tls.ca), "root", password_file=password)


@pytest.fixture
async def locked(etcd: Etcd, root_access: EtcdAccess, tls: EtcdTls, tmp_path: Path) -> AsyncIterator[Locked]:
    control = AccessControl(root_access)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(control.close)
        api = await stack.enter_async_context(ApiClient(ApiAccess(await reviewer(stack))))
        issuer = Issuer(control, api, "leadsman")
        enabling = asyncio.create_task(issuer.keep_enabled())
        stack.push_async_callback(ended, enabling)
        port = await stack.enter_async_context(
            serve(create_app(issuer), "127.0.0.1", 0, tls=ServerTls(tls.certificate, tls.key))
        )
        await until(lambda: not issuer.problem.text)
        made = Locked(etcd, issuer, control, f"https://127.0.0.1:{port}", tmp_path)
        stack.push_async_callback(made.close)
        yield made


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def reviewer(stack: AsyncExitStack) -> str:
    """The URL of an API server that reviews tokens by the table."""

    async def review(request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        assert spec["audiences"] == [AUDIENCE]
        return web.json_response({"status": TOKENS.get(spec["token"], {"authenticated": False})})

    app = web.Application()
    app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", review)
    port = await stack.enter_async_context(serve(app, "127.0.0.1", 0))
    return f"http://127.0.0.1:{port}"


async def until(true: Callable[[], Any], within_seconds: float = 90.0) -> None:
    async with asyncio.timeout(within_seconds):
        while not true():  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.01)
