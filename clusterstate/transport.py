"""Calls to etcd's gateway over HTTP: which endpoint, who we are, how long we wait."""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from clusterstate import gateway
from clusterstate.gateway import Body
from clusterstate.store import Compacted, Unavailable

A = TypeVar("A")

# A peer that vanished without a word is noticed after 10 + 3 * 5 s, with or without data under way.
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)
_READ_BUFFER_BYTES = 1 << 20
LONGEST_LINE_BYTES = 64 << 20
"""Of a watch. A batch above this is not worth holding: a listing comes in pages."""
_OK = 200
# Ends a watch whose member lost its leader; it would stay silent otherwise. WithRequireLeader in etcd's Go client.
_REQUIRE_LEADER = {"Grpc-Metadata-hasleader": "true"}


class Access(Struct, frozen=True):
    """Where the store is and who we are.

    endpoints: URLs of members, tried in turn. ca_file: PEM, for https; empty: the system's. user: empty: etcd
    without authentication. call_timeout_seconds: T, for one call and for the start of a watch.
    """

    endpoints: tuple[str, ...]
    ca_file: str = ""
    user: str = ""
    password: str = ""
    call_timeout_seconds: float = 3.0

    def __post_init__(self) -> None:
        wrong = [url for url in self.endpoints if not url.startswith(("http://", "https://"))]
        if wrong or not self.endpoints:
            raise ValueError(f"endpoints {list(self.endpoints)}: want http:// or https:// URLs, at least one")
        if not self.call_timeout_seconds > 0:
            raise ValueError(f"call_timeout_seconds {self.call_timeout_seconds}: want more than 0")


class Opened(NamedTuple):
    """A streaming call that has begun: its first line, and the lines that follow."""

    first: bytes
    rest: "Lines"


class Transport:
    def __init__(self, access: Access):
        self.access = access
        self.logins = 0
        self._turn = 0
        self.token = ""
        self._session: aiohttp.ClientSession | None = None

    @property
    def endpoint(self) -> str:
        """The one that the next call goes to."""
        return self.access.endpoints[self._turn % len(self.access.endpoints)].rstrip("/")

    async def call(self, path: str, body: Body, answer: type[A]) -> A:
        """The answer to a unary call, within the call timeout. Raises StoreErrors."""

        async def attempt(headers: dict[str, str]) -> A:
            return gateway.decode(await self._post(path, body, headers), answer)

        async with self._in_time(path):
            return await self._signed(attempt)

    @asynccontextmanager
    async def stream(
        self, path: str, body: Body, check: Callable[[bytes], object], silence_seconds: float
    ) -> AsyncGenerator[Opened]:
        """A streaming call whose first line passed `check`, which raises TokenRefused for a token to be renewed.
        The lines that follow raise TimeoutError after `silence_seconds` without a byte."""

        async def attempt(headers: dict[str, str]) -> tuple[aiohttp.ClientResponse, Opened]:
            response = await self._respond(path, body, headers | _REQUIRE_LEADER)
            try:
                lines = Lines(response.content, silence_seconds)
                first = await lines.next()
                check(first)
            except BaseException:
                _drop(response)
                raise
            return response, Opened(first, lines)

        async with self._in_time(path):
            response, opened = await self._signed(attempt)
        try:
            with _as_ours(self.endpoint):
                yield opened
        finally:
            _drop(response)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)  # dropped connections close their sockets on the loop's next turn
            self._session = None

    @asynccontextmanager
    async def _in_time(self, path: str) -> AsyncGenerator[None]:
        """Unavailable also means: the next call goes to the next endpoint."""
        try:
            with _as_ours(self.endpoint):
                async with asyncio.timeout(self.access.call_timeout_seconds):
                    yield
        except Unavailable:
            self._turn += 1
            raise
        except TimeoutError as error:
            text = f"{self.endpoint}{path}: no answer within {self.access.call_timeout_seconds:g} s"
            self._turn += 1
            raise Unavailable(text) from error

    async def _signed(self, attempt: Callable[[dict[str, str]], Awaitable[A]]) -> A:
        """The attempt's result, made once more with a new token when etcd does not know this one."""
        used = await self._authorization()
        try:
            return await attempt(used)
        except gateway.TokenRefused:
            if not used:
                raise
            self._forget(used)
            return await attempt(await self._authorization())

    async def _authorization(self) -> dict[str, str]:
        if self.access.user and not self.token:
            login = {"name": self.access.user, "password": self.access.password}
            answer = await self._post("/v3/auth/authenticate", login, {})
            self.token = gateway.decode(answer, gateway.Authenticated).token
            self.logins += 1
        return {"Authorization": self.token} if self.token else {}

    def _forget(self, used: dict[str, str]) -> None:
        """Unless another call has logged in again already."""
        if self.token == used["Authorization"]:
            self.token = ""

    async def _post(self, path: str, body: Body, headers: dict[str, str]) -> bytes:
        response = await self._respond(path, body, headers)
        async with response:
            return await response.read()

    async def _respond(self, path: str, body: Body, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """From the first endpoint that takes a connection. Nothing was sent to the others, so nothing is done twice."""
        data = msgspec.json.encode(body)
        for _ in self.access.endpoints[1:]:
            try:
                return await self._request(path, data, headers)
            except aiohttp.ClientConnectorError:
                self._turn += 1
        return await self._request(path, data, headers)

    async def _request(self, path: str, data: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse:
        response = await self._http().post(self.endpoint + path, data=data, headers=headers)
        if response.status != _OK:
            async with response:
                raise gateway.refusal(response.status, await response.read())
        return response

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            ca = self.access.ca_file
            verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca) if ca else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=verify, socket_factory=line_socket),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                read_bufsize=_READ_BUFFER_BYTES,
            )
        return self._session


def line_socket(address: Any) -> socket.socket:
    """A socket that notices a vanished peer. address: as `getaddrinfo` gives it."""
    family, kind, protocol, *_ = address
    one = socket.socket(family, kind, protocol)
    for option in _SOCKET_OPTIONS:
        one.setsockopt(*option)
    return one


def _drop(response: aiohttp.ClientResponse) -> None:
    """Ends the line without TLS's farewell, which a silent peer would never answer."""
    line = response.connection and response.connection.transport
    if line is not None:
        line.abort()
    response.close()


class Lines:
    """Lines of any length up to LONGEST_LINE_BYTES. aiohttp's own readline gives up at a few hundred KiB."""

    def __init__(self, content: aiohttp.StreamReader, silence_seconds: float):
        self._content = content
        self._silence_seconds = silence_seconds
        self._whole: deque[bytes] = deque()
        self._begun = bytearray()

    async def next(self) -> bytes:
        """The next line; the last one need not end. TimeoutError when no byte comes for `silence_seconds`,
        Unavailable after the last line, Compacted when the line is too long."""
        while not self._whole:
            async with asyncio.timeout(self._silence_seconds):
                chunk = await self._content.readany()
            self._take(chunk)
        return self._whole.popleft()

    def _take(self, chunk: bytes) -> None:
        if not chunk and not self._begun:
            raise Unavailable("the line was closed")
        self._begun += chunk or b"\n"
        if b"\n" in self._begun[-len(chunk) - 1 :]:
            *whole, rest = bytes(self._begun).split(b"\n")
            self._whole.extend(whole)
            self._begun = bytearray(rest)
        if len(self._begun) > LONGEST_LINE_BYTES:
            raise Compacted(f"a batch of more than {LONGEST_LINE_BYTES} bytes")


@contextmanager
def _as_ours(endpoint: str) -> Generator[None]:
    """Connection errors inside become Unavailable, with the endpoint's name."""
    try:
        yield
    except TimeoutError:
        raise
    except (aiohttp.ClientError, OSError) as error:
        raise Unavailable(f"{endpoint}: {error or type(error).__name__}") from error
