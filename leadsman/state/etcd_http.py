"""Calls etcd's JSON gateway over HTTP: endpoints in turn, authentication and deadlines."""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from leadsman.runtime.client_tls import ClientTls, TlsSetting, check_authorities, keepalive_socket
from leadsman.state import etcd_json
from leadsman.state.etcd_json import JsonBody
from leadsman.state.store import Compacted, Denied, StoreError, Unavailable, Unreachable

# Reads the lines of a streaming call to etcd.

LONGEST_LINE_BYTES = 16 << 20
"""A line of a watch may have this size. etcd divides its messages at its own limit of a request, 2 MiB and 2.8 MB in
JSON unless an operator raised it. A listing, which comes in pages, replaces a larger message."""


class LineReader:
    """Reads lines of any length up to LONGEST_LINE_BYTES. aiohttp's own readline fails at a few hundred KiB."""

    def __init__(self, content: aiohttp.StreamReader, silence_seconds: float):
        self._content = content
        self._silence_seconds = silence_seconds
        self._whole: deque[bytes] = deque()
        self._begun = bytearray()

    async def next(self) -> bytes:
        """Returns the next line; the last one need not end. Raises TimeoutError when no byte comes for
        `silence_seconds`, Unavailable after the last line, Compacted when the line is too long."""
        while not self._whole:
            async with asyncio.timeout(self._silence_seconds):
                chunk = await self._content.readany()
            self._take(chunk)
        return self._whole.popleft()

    def _take(self, chunk: bytes) -> None:
        if not chunk and not self._begun:
            raise Unavailable("etcd closed the stream")
        self._begun += chunk or b"\n"
        if b"\n" in self._begun[-len(chunk) - 1 :]:
            *whole, rest = bytes(self._begun).split(b"\n")
            self._whole.extend(whole)
            self._begun = bytearray(rest)
        if len(self._begun) > LONGEST_LINE_BYTES:
            raise Compacted(f"watch message larger than {LONGEST_LINE_BYTES} bytes")


A = TypeVar("A")
Attempt = Callable[[str, dict[str, str]], Awaitable[A]]
"""One attempt of a call, at an endpoint, with the headers that authenticate us."""

_IDLE_CONNECTION_SECONDS = 60.0
"""aiohttp's own 15 s are an agent's interval between two calls in a large cluster, so it connected for nearly each."""
_READ_BUFFER_BYTES = 1 << 20
LARGEST_RESPONSE_BYTES = 16 << 20
"""The response to a unary call may have this size. A page of 500 records of 4 KiB takes 2.7 MB, and a stranger may
write 1.5 MiB under each key."""
_OK = 200
# Ends a watch whose member lost its leader; otherwise it would stay silent. WithRequireLeader in etcd's Go client.
_REQUIRE_LEADER = {"Grpc-Metadata-hasleader": "true"}


class EtcdAccess(Struct, frozen=True):
    """Says where etcd is, and how we show who we are. Raises ValueError when they cannot be used.

    endpoints: URLs of members, tried in turn. One that takes no connection within its share of the call timeout is left
        for the next in the same call; one that does not answer, has no leader or denies us, by the next call.
    ca_file: PEM, for https; "": the system's.
    token_file: our service account's token for a locked etcd; read at each call, because kubelet rotates it. None: the
        etcd is open.
    call_timeout_seconds: T, for one call and for the start of a watch.
    """

    endpoints: tuple[str, ...]
    ca_file: str = ""
    token_file: Path | None = None
    call_timeout_seconds: float = 3.0

    def __post_init__(self) -> None:
        wrong = [url for url in self.endpoints if not url.startswith(("http://", "https://"))]
        if wrong or not self.endpoints:
            raise ValueError(f"endpoints {list(self.endpoints)} must be http:// or https:// URLs, at least one")
        if self.token_file and not all(url.startswith("https://") for url in self.endpoints):
            raise ValueError(
                f"endpoints {list(self.endpoints)} must be https://, as a token would be sent in the clear"
            )
        if not self.call_timeout_seconds > 0:
            raise ValueError(f"call_timeout_seconds {self.call_timeout_seconds} must be more than 0")

    def authorization(self) -> dict[str, str]:
        """Returns the headers that show who we are. Raises Denied when the token file holds no token."""
        if self.token_file is None:
            return {}
        try:
            token = self.token_file.read_bytes().decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Denied(f"token file {self.token_file}: {error}") from error
        if not token:
            raise Denied(f"token file {self.token_file}: it is empty; kubelet writes the token there")
        return {"Authorization": f"Bearer {token}"}


class ResponseTooLarge(StoreError):
    """A unary call's response is larger than LARGEST_RESPONSE_BYTES: ask for fewer items."""


OpenStream = tuple[bytes, LineReader]
"""A streaming call that has begun: its first line, and the lines that follow."""


class EtcdTransport:
    """Calls etcd at its endpoints. Raises ValueError when the CA file cannot be used."""

    def __init__(self, access: EtcdAccess):
        self.access = access
        first = _ssl_context(access.ca_file, access.endpoints)
        files = (Path(access.ca_file),) if access.ca_file else ()
        self._tls = ClientTls("etcd", files, first, partial(_renewed_context, access.ca_file, access.endpoints))
        self._turn = 0
        self._connect_seconds = access.call_timeout_seconds / len(access.endpoints)
        self._session: aiohttp.ClientSession | None = None

    @property
    def endpoint(self) -> str:
        """Returns the endpoint of the next call."""
        return self.access.endpoints[self._turn % len(self.access.endpoints)].rstrip("/")

    async def call(self, path: str, body: JsonBody, kind: type[A]) -> A:
        """Returns the response to a unary call as `kind`, within the call timeout. Raises StoreErrors."""

        async def attempt(endpoint: str, headers: dict[str, str]) -> A:
            return etcd_json.decode_response(await self._post(endpoint + path, body, headers), kind)

        return await self._on_any_endpoint(path, attempt)

    @asynccontextmanager
    async def stream(
        self, path: str, body: JsonBody, check: Callable[[bytes], object], silence_seconds: float
    ) -> AsyncGenerator[OpenStream]:
        """Opens a streaming call.

        check: gets the first line; raises the error of a stream that did not begin.
        silence_seconds: without a byte, after which reading the lines that follow raises TimeoutError.
        """

        async def attempt(endpoint: str, headers: dict[str, str]) -> tuple[str, aiohttp.ClientResponse, OpenStream]:
            response = await self._request(endpoint + path, body, headers | _REQUIRE_LEADER)
            try:
                lines = LineReader(response.content, silence_seconds)
                first = await lines.next()
                check(first)
            except BaseException:
                _drop(response)
                raise
            return endpoint, response, (first, lines)

        endpoint, response, opened = await self._on_any_endpoint(path, attempt)
        try:
            with _translated_errors(endpoint):
                yield opened
        finally:
            _drop(response)

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)  # Dropped connections close their sockets on the loop's next turn.
            self._session = None

    async def _on_any_endpoint(self, path: str, attempt: Attempt[A]) -> A:
        """Returns the result from the first endpoint that takes a connection, within the call timeout.

        Nothing was sent to the others, so nothing is done twice.
        """
        deadline = asyncio.get_running_loop().time() + self.access.call_timeout_seconds
        for _ in self.access.endpoints[1:]:
            with suppress(Unreachable):
                return await self._on_endpoint(self.endpoint, path, deadline, attempt)
        return await self._on_endpoint(self.endpoint, path, deadline, attempt)

    async def _on_endpoint(self, endpoint: str, path: str, deadline: float, attempt: Attempt[A]) -> A:
        """Returns the result from one endpoint. When it is Unavailable or Denied, the next call goes to the next
        endpoint: what one member refuses, another may know better."""
        try:
            with _translated_errors(endpoint):
                async with asyncio.timeout_at(deadline):
                    return await attempt(endpoint, self.access.authorization())
        except TimeoutError as error:
            self._next_endpoint(endpoint)
            text = f"{endpoint}{path}: no response within {self.access.call_timeout_seconds:g} s"
            raise Unavailable(text) from error
        except (Unavailable, Denied):
            self._next_endpoint(endpoint)
            raise

    def _next_endpoint(self, endpoint: str) -> None:
        """Moves on, unless another call did: two that fail together must not skip an endpoint."""
        if self.endpoint == endpoint:
            self._turn += 1

    async def _post(self, url: str, body: JsonBody, headers: dict[str, str]) -> bytes:
        async with await self._request(url, body, headers) as response:
            data = bytearray()
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > LARGEST_RESPONSE_BYTES:
                    raise ResponseTooLarge(f"{url}: response larger than {LARGEST_RESPONSE_BYTES} bytes")
            return bytes(data)

    async def _request(self, url: str, body: JsonBody, headers: dict[str, str]) -> aiohttp.ClientResponse:
        data = msgspec.json.encode(body)
        response = await self._http().post(url, data=data, headers=headers, ssl=self._tls.current)
        if response.status != _OK:
            async with response:
                raise etcd_json.error_from_response(response.status, await response.read())
        return response

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    socket_factory=keepalive_socket, keepalive_timeout=_IDLE_CONNECTION_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_seconds),
                read_bufsize=_READ_BUFFER_BYTES,
            )
        return self._session


def _renewed_context(ca_file: str, urls: Sequence[str]) -> TlsSetting:
    made = _ssl_context(ca_file, urls)
    if isinstance(made, ssl.SSLContext) and made.get_ca_certs():  # None is there of a pinned server certificate.
        check_authorities(made, ca_file, time.time(), "server")
    return made


def _ssl_context(ca_file: str, urls: Iterable[str]) -> TlsSetting:
    """Created here, since aiohttp's own has no CAs in an agent: leadsman.runtime.lean_aiohttp."""
    try:
        needed = ca_file or any(url.startswith("https:") for url in urls)
        return ssl.create_default_context(cafile=ca_file or None) if needed else True
    except OSError as error:  # ssl.SSLError is one.
        raise ValueError(f"ca_file {ca_file!r} must hold certificates in PEM: {error}") from error


def _drop(response: aiohttp.ClientResponse) -> None:
    """Closes the connection without TLS's close_notify, which a silent peer would never answer."""
    transport = response.connection and response.connection.transport
    if transport is not None:
        transport.abort()
    response.close()


@contextmanager
def _translated_errors(endpoint: str) -> Generator[None]:
    """Connection errors inside become Unavailable, with the endpoint's name. TimeoutErrors pass."""
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(f"{endpoint}: {error}") from error
    except TimeoutError:
        raise
    except (aiohttp.ClientError, OSError) as error:
        raise Unavailable(f"{endpoint}: {error or type(error).__name__}") from error
