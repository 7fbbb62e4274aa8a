"""A real etcd behind its gateway, which knows tokens by a table."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from leadsman.etcd.clients import AUDIENCE, NODE_CLAIM, Clients
from leadsman.etcd.gateway import LIMITS, Gateway, create_app, create_session
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.runtime.http_server import serve
from leadsman.runtime.server_tls import ServerTls, TlsFiles
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.testbed.etcd import Etcd, EtcdTls
from tests.testbed.certificates import CertificateAuthority


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
    "of-a-member": status("leadsman-etcd"),
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


class Reviewer:
    """An API server that reviews tokens by the table. away: it answers nothing. reviews: how many it was asked for."""

    def __init__(self) -> None:
        self.tokens, self.away, self.reviews = dict(TOKENS), False, 0

    async def review(self, request: web.Request) -> web.Response:
        self.reviews += 1
        spec = (await request.json())["spec"]
        assert spec["audiences"] == [AUDIENCE]
        if self.away:
            return web.Response(status=503)
        return web.json_response({"status": self.tokens.get(spec["token"], {"authenticated": False})})


class Locked:
    """The etcd and its gateway.

    clients: whom the gateway knows. now: its clock, seconds. store(token): of the process with this token.
    """

    def __init__(self, etcd: Etcd, tls: EtcdTls, folder: Path) -> None:
        self.etcd, self.tls, self.reviewer, self.now, self.url = etcd, tls, Reviewer(), 0.0, ""
        self._folder, self._stores = folder, list[EtcdStore]()

    def access(self, token: str) -> EtcdAccess:
        file = self._folder / f"token-{token}"
        file.write_text(token)
        return EtcdAccess((self.url,), str(self.tls.ca), file, call_timeout_seconds=10.0)

    def store(self, token: str) -> EtcdStore:
        self._stores.append(EtcdStore(self.access(token), silence_seconds=20.0))
        return self._stores[-1]

    async def serve(self, stack: AsyncExitStack) -> None:
        reviews = web.Application()
        reviews.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", self.reviewer.review)
        api_port = await stack.enter_async_context(serve(reviews, "127.0.0.1", 0))
        api = await stack.enter_async_context(ApiClient(ApiAccess(f"http://127.0.0.1:{api_port}")))
        session = await stack.enter_async_context(create_session())
        self.clients = Clients(api, "leadsman", lambda: self.now)
        gateway = Gateway(self.etcd.client_url, self.clients, session)
        tls = ServerTls(TlsFiles(self.tls.certificate, self.tls.key))
        port = await stack.enter_async_context(serve(create_app(gateway), "127.0.0.1", 0, LIMITS, tls=tls))
        self.url = f"https://127.0.0.1:{port}"

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> EtcdTls:
    folder, authority = tmp_path_factory.mktemp("tls"), CertificateAuthority()
    (folder / "ca.crt").write_text(authority.pem)
    certificate, key = authority.issue("127.0.0.1", "localhost").write(folder, "server")
    return EtcdTls(folder / "ca.crt", certificate, key)


@pytest.fixture
async def locked(etcd: Etcd, tls: EtcdTls, tmp_path: Path) -> AsyncIterator[Locked]:
    made = Locked(etcd, tls, tmp_path)
    async with AsyncExitStack() as stack:
        await made.serve(stack)
        stack.push_async_callback(made.close)
        yield made
