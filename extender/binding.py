"""Binding a pod through the API server: POST …/pods/<name>/binding, core/v1."""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from extender.wire import Binding

DEADLINE_SECONDS = 5.0

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_LONGEST_ANSWER_BYTES = 65_536


class NotInCluster(ValueError):
    """No API server is known. Give its URL."""


class ApiServer(Struct, frozen=True):
    """token_file: read before each call, because kubelet rotates it. tls None: the system's CAs."""

    url: str
    token_file: Path | None = None
    tls: ssl.SSLContext | None = None
    deadline_seconds: float = DEADLINE_SECONDS

    async def bind(self, session: aiohttp.ClientSession, binding: Binding) -> str:
        """Why the pod may not be bound; empty once the API server has bound it."""
        try:
            async with asyncio.timeout(self.deadline_seconds):
                return await self._post(session, binding)
        except TimeoutError:
            return f"{self.url}: no answer within {self.deadline_seconds:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return f"{self.url}: {type(error).__name__}: {error}"

    async def _post(self, session: aiohttp.ClientSession, binding: Binding) -> str:
        async with session.post(
            _address(self.url, binding),
            data=_body(binding),
            headers=self._headers(),
            ssl=self.tls or True,
            allow_redirects=False,
        ) as answer:
            text = await answer.content.read(_LONGEST_ANSWER_BYTES)
            return "" if answer.status in (200, 201, 202) else f"API server: {answer.status} {_message(text)}"

    def _headers(self) -> Mapping[str, str]:
        token = {"Authorization": f"Bearer {self.token_file.read_text().strip()}"} if self.token_file else {}
        return {"Content-Type": "application/json", "Accept": "application/json", **token}


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> ApiServer:
    """The API server as kubelet shows it to every pod. NotInCluster when it does not."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    if not host or not (account / "token").exists():
        raise NotInCluster(f"neither KUBERNETES_SERVICE_HOST nor {account}/token; give the API server's URL")
    tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
    return ApiServer(f"https://{f'[{host}]' if ':' in host else host}:{port}", account / "token", tls)


def _address(url: str, binding: Binding) -> URL:
    namespace, name = quote(binding.namespace, safe=""), quote(binding.name, safe="")
    return URL(f"{url.rstrip('/')}/api/v1/namespaces/{namespace}/pods/{name}/binding", encoded=True)


def _body(binding: Binding) -> bytes:
    """uid: the API server refuses to bind another pod of the same name."""
    meta = {"name": binding.name, "namespace": binding.namespace} | ({"uid": binding.uid} if binding.uid else {})
    target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})


def _message(body: bytes) -> str:
    """The message of a v1 Status, else the beginning of whatever it is."""
    try:
        return msgspec.json.decode(body, type=_Status).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body[:200].decode(errors="replace")


class _Status(Struct):
    message: str
