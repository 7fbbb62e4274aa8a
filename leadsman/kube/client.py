"""Calls the API server, each call within a deadline. A refusal raises the type that says what to do about it."""

import asyncio
import contextlib
import logging
import os
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from functools import partial
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from leadsman.kube.access import ApiAccess, ApiAccessError
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import (
    InvalidRequest,
    MalformedResponse,
    NotFound,
    NotLeader,
    ResponseTooLarge,
    StreamSilent,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    error_from_response,
)
from leadsman.kube.objects import IdentifiedObject
from leadsman.kube.resources import Resource
from leadsman.runtime.client_tls import (
    ClientTls,
    TlsSetting,
    check_authorities,
    check_client_certificate,
    keepalive_socket,
)
from leadsman.runtime.redaction import hide_credentials

# The HTTP session of an ApiAccess, whose sockets notice a vanished peer, and its TLS, which follows the files.

log = logging.getLogger(__name__)

LONGEST_LINE_BYTES = 16 << 20
"""etcd stores values up to 1.5 MiB by default; an object in JSON is at most a few times as long."""


class _FencedConnector(aiohttp.TCPConnector):
    """Asks `may_write` once a write has its connection, right before it is sent.

    To wait for a free connection or for TLS may take longer than a lead lasts, most of all in a process that froze.
    """

    def __init__(self, may_write: Callable[[], bool], **settings: Any) -> None:
        super().__init__(**settings)
        self._may_write = may_write

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        if req.method != "GET" and not self._may_write():
            connection.release()
            raise NotLeader(f"{req.method} {req.url.path} was not sent: another replica may lead by now")
        return connection


def open_session(connections: int = 32, may_write: Callable[[], bool] = lambda: True) -> aiohttp.ClientSession:
    """Opens a session inside a running loop; close it. Each request brings its TLS setting (`follow_tls`).

    connections: most that are open at once. may_write: NotLeader instead of a request that is no GET when it says no.
    """
    return aiohttp.ClientSession(
        connector=_FencedConnector(may_write, socket_factory=keepalive_socket, limit=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    )


def follow_tls(access: ApiAccess) -> ClientTls:
    """Returns the TLS of connections to the API server. Raises ApiAccessError when the files cannot be used."""
    files = access.tls_files if access.read_again and access.url.startswith("https://") else ()
    return ClientTls(hide_credentials(access.url), files, _ssl_context(access), partial(_renewed_context, access))


def _renewed_context(access: ApiAccess) -> TlsSetting:
    """Raises ValueError when the API server would not be believed, or would not believe us."""
    newest = access.read_again() if access.read_again else access
    made = _ssl_context(newest)
    if newest.ca and isinstance(made, ssl.SSLContext) and made.get_ca_certs():  # None is there of a pinned certificate.
        check_authorities(made, "the CA", time.time(), "server")
    if newest.certificate:
        with _as_file(newest.certificate + "\n" + newest.key) as path:
            check_client_certificate(path)
    return made


def _ssl_context(access: ApiAccess) -> TlsSetting:
    if not access.url.startswith("https://"):
        return True
    try:
        tls = ssl.create_default_context(cadata=access.ca or None)
        if access.certificate:
            with _as_file(access.certificate + "\n" + access.key) as path:
                tls.load_cert_chain(path)
    except (ssl.SSLError, ValueError) as error:
        raise ApiAccessError(
            f"API server {access.url}: CA, client certificate or key cannot be used: {error}"
        ) from error
    if access.insecure:
        log.warning(
            "TLS certificate of %s is not verified because the kubeconfig sets insecure-skip-tls-verify; "
            "set certificate-authority instead",
            access.url,
        )
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Gives a path to the text, in memory: OpenSSL reads keys only from files, and a key must not be on a disk."""
    descriptor = os.memfd_create("leadsman")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


T = TypeVar("T")

DEADLINE_SECONDS = 10.0

JSON_CONTENT_TYPE = "application/json"

LARGEST_RESPONSE_BYTES = LONGEST_LINE_BYTES
"""A call may bring so much: room for any one object. A list asks for fewer objects at once when they take more
(`listing`)."""

_DONE = (200, 201, 202)
_LONGEST_REFUSAL_BYTES = 65_536


class PatchType(Enum):
    """Says how the API server applies a patch.

    MERGE: null deletes, lists are replaced.
    STRATEGIC: lists are merged by key; not for custom resources.
    """

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class ApiRequest(Struct, frozen=True):
    """A request to the API server.

    path: from Resource.path.
    body: anything that JSON can hold; None: no body.
    max_bytes: raises ResponseTooLarge when the response has more.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    content_type: str = JSON_CONTENT_TYPE
    accept: str = JSON_CONTENT_TYPE
    max_bytes: int = LARGEST_RESPONSE_BYTES


class ApiClient:
    """Calls one API server. Use it with `async with`, or close it.

    deadline_seconds: of a call, including the waits that the API server requests by 429 and Retry-After; of a stream,
    until it begins.
    connections: most that are open at once.
    may_write: asked right before a request that is no GET is sent, also when it is repeated after a 429; raises
    NotLeader when it says no.

    Entering it, or the first call, raises ApiAccessError when the TLS files cannot be used.
    """

    def __init__(
        self,
        access: ApiAccess,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        connections: int = 32,
        may_write: Callable[[], bool] = lambda: True,
    ):
        self.access, self.deadline_seconds = access, deadline_seconds
        self._connections, self._may_write = connections, may_write
        self._session: aiohttp.ClientSession | None = None
        self._tls: ClientTls | None = None

    async def __aenter__(self) -> Self:
        self._http()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)  # Dropped connections close their sockets on the loop's next turn.
            self._session = None

    async def get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        """Returns what GET gives, decoded as `kind`. Raises ApiError, as every call does."""
        return decode_json(await self.send(ApiRequest("GET", path, query or {})), kind)

    async def serves(self, resource: Resource) -> bool:
        """Tells whether the API server has this resource."""
        try:
            served = await self.get(resource.root, dict[str, Any])
        except NotFound:
            return False
        return any(each["name"] == resource.plural for each in served.get("resources") or ())

    async def create(self, path: str, body: Any, kind: type[T] = IdentifiedObject) -> T:  # type: ignore[assignment]
        """Creates an object by POST, and returns it as it was created. A 404 raises InvalidRequest: the object's
        namespace or its kind does not exist."""
        try:
            return decode_json(await self.send(ApiRequest("POST", path, body=body)), kind)
        except NotFound as error:
            raise InvalidRequest(str(error), error.status) from error

    async def replace(self, path: str, body: Any, kind: type[T] = IdentifiedObject) -> T:  # type: ignore[assignment]
        """Replaces an object by PUT, and returns it as it is then. Raises Conflict when the body's resourceVersion is
        not the newest."""
        return decode_json(await self.send(ApiRequest("PUT", path, body=body)), kind)

    async def patch(
        self,
        path: str,
        body: Any,
        patch_type: PatchType = PatchType.MERGE,
        kind: type[T] = IdentifiedObject,  # type: ignore[assignment]
    ) -> T:
        """Changes an object by PATCH, and returns the result."""
        return decode_json(await self.send(ApiRequest("PATCH", path, body=body, content_type=patch_type.value)), kind)

    async def delete(self, path: str, uid: str = "") -> None:
        """Deletes an object. uid: raises Conflict when the object of this name is now another one."""
        await self.send(ApiRequest("DELETE", path, body={"preconditions": {"uid": uid}} if uid else None))

    async def send(self, call: ApiRequest) -> bytes:
        """Returns the body of a successful response. A 429 is repeated if Retry-After fits the deadline."""
        deadline = asyncio.get_running_loop().time() + self.deadline_seconds
        while True:
            try:
                return await self._send_once(call, deadline)
            except TooManyRequests as error:
                wait_seconds = error.retry_after_seconds
                if not wait_seconds or asyncio.get_running_loop().time() + wait_seconds >= deadline:
                    raise
                await asyncio.sleep(wait_seconds)

    @asynccontextmanager
    async def stream(self, call: ApiRequest, silence_seconds: float) -> AsyncGenerator[AsyncGenerator[list[bytes]]]:
        """Opens a response that goes on, and gives its lines as `read_line_batches` yields them."""
        with self._translated_errors():
            async with asyncio.timeout(self.deadline_seconds):
                response = await self._request(call)
            try:
                yield read_line_batches(response.content, silence_seconds)
            finally:
                _drop(response)

    async def _send_once(self, call: ApiRequest, deadline: float) -> bytes:
        with self._translated_errors():
            async with asyncio.timeout_at(deadline), await self._request(call) as response:
                return await _read_body(response, call.max_bytes)

    async def _request(self, call: ApiRequest) -> aiohttp.ClientResponse:
        """Returns a successful response; raises the error of any other."""
        session, tls = self._http()
        query = f"?{urlencode(call.query)}" if call.query else ""
        response = await session.request(
            call.method,
            URL(f"{self.access.url}{call.path}{query}", encoded=True),
            data=None if call.body is None else msgspec.json.encode(call.body),
            headers={"Content-Type": call.content_type, "Accept": call.accept} | self._authorization(),
            allow_redirects=False,
            server_hostname=self.access.server_name or None,
            ssl=tls.current,
        )
        if response.status not in _DONE:
            async with response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) >= _LONGEST_REFUSAL_BYTES:
                        break
                raise error_from_response(response.status, bytes(body), response.headers.get("Retry-After"))
        return response

    def _http(self) -> tuple[aiohttp.ClientSession, ClientTls]:
        if self._tls is None:
            self._tls = follow_tls(self.access)
        if self._session is None:
            self._session = open_session(self._connections, self._may_write)
        return self._session, self._tls

    def _authorization(self) -> dict[str, str]:
        try:
            token = self.access.read_token()
        except ValueError as error:
            source = f"token file {self.access.token_file}" if self.access.token_file else "the kubeconfig's token"
            raise Unauthorized(f"{source}: {error}") from error
        return {"Authorization": f"Bearer {token}"} if token else {}

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        """Turns deadlines and failed connections into Unavailable, with the API server's URL without credentials."""
        try:
            yield
        except TimeoutError as error:
            text = f"{self.access.url}: no response within {self.deadline_seconds:g} s"
            raise Unavailable(hide_credentials(text)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(hide_credentials(f"{self.access.url}: {type(error).__name__}: {error}")) from error


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            _drop(response)
            raise ResponseTooLarge(f"the response has more than {max_bytes:,} bytes")
    return bytes(body)


def _drop(response: aiohttp.ClientResponse) -> None:
    """Closes the connection without TLS's close_notify, which a silent peer would never answer."""
    transport = response.connection and response.connection.transport
    if transport is not None:
        transport.abort()
    response.close()


async def read_line_batches(content: aiohttp.StreamReader, silence_seconds: float) -> AsyncGenerator[list[bytes]]:
    """Yields the complete lines of each chunk until the stream is closed; an incomplete last line is dropped. aiohttp's
    own readline fails at a few hundred KiB.

    Raises StreamSilent when no byte comes for `silence_seconds`, MalformedResponse when a line is too long.
    """
    incomplete = bytearray()
    while chunk := await _chunk(content, silence_seconds):
        incomplete += chunk
        if b"\n" in chunk:
            *complete, rest = bytes(incomplete).split(b"\n")
            incomplete = bytearray(rest)
            yield [line for line in complete if line.strip()]
        if len(incomplete) > LONGEST_LINE_BYTES:
            raise MalformedResponse(f"line longer than {LONGEST_LINE_BYTES} bytes")


async def _chunk(content: aiohttp.StreamReader, silence_seconds: float) -> bytes:
    try:
        async with asyncio.timeout(silence_seconds):
            return await content.readany()
    except TimeoutError as error:
        raise StreamSilent(f"no data on the stream for {silence_seconds:g} s") from error
