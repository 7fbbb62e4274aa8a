"""Calls to the API server, each within a deadline. A refusal is raised as the type that says what to do about it."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from leadsman.kube import line_reader
from leadsman.kube.access import ApiAccess
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import ApiError, TooManyRequests, Unauthorized, Unavailable, error_from_response
from leadsman.kube.http_session import open_session
from leadsman.kube.objects import PartialObjectMetadata

T = TypeVar("T")

DEADLINE_SECONDS = 10.0

JSON_CONTENT_TYPE = "application/json"

_DONE = (200, 201, 202)
_LONGEST_REFUSAL_BYTES = 65_536


class PatchType(Enum):
    """MERGE: null deletes, lists are replaced. STRATEGIC: lists are merged by key; not for custom resources."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class ApiRequest(Struct, frozen=True):
    """One request. path: as Resource.path gives it. body: anything that JSON can hold; None: none."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    content_type: str = JSON_CONTENT_TYPE
    accept: str = JSON_CONTENT_TYPE


class ApiClient:
    """Use it with `async with`, or close it. ApiAccessError, then or at the first call, for unusable TLS
    files.

    deadline_seconds: for a call, with the waits that the API server asks for by 429 and Retry-After; for a stream,
    until it begins. connections: at most so many at once.
    """

    def __init__(self, access: ApiAccess, *, deadline_seconds: float = DEADLINE_SECONDS, connections: int = 32):
        self.access, self.deadline_seconds, self._connections = access, deadline_seconds, connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)  # dropped connections close their sockets on the loop's next turn
            self._session = None

    async def get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        return decode_json(await self.send(ApiRequest("GET", path, query or {})), kind)

    async def create(self, path: str, body: Any, kind: type[T] = PartialObjectMetadata) -> T:  # type: ignore[assignment]
        return decode_json(await self.send(ApiRequest("POST", path, body=body)), kind)

    async def replace(self, path: str, body: Any, kind: type[T] = PartialObjectMetadata) -> T:  # type: ignore[assignment]
        """Conflict when the body's resourceVersion is not the newest."""
        return decode_json(await self.send(ApiRequest("PUT", path, body=body)), kind)

    async def patch(
        self,
        path: str,
        body: Any,
        how: PatchType = PatchType.MERGE,
        kind: type[T] = PartialObjectMetadata,  # type: ignore[assignment]
    ) -> T:
        return decode_json(await self.send(ApiRequest("PATCH", path, body=body, content_type=how.value)), kind)

    async def delete(self, path: str, uid: str = "") -> None:
        """uid: Conflict when the name stands for another object by now."""
        await self.send(ApiRequest("DELETE", path, body={"preconditions": {"uid": uid}} if uid else None))

    async def send(self, call: ApiRequest) -> bytes:
        """The body of a success. After a 429 it is sent again when Retry-After fits into the deadline."""
        deadline = asyncio.get_running_loop().time() + self.deadline_seconds
        while True:
            try:
                return await self._sent(call, deadline)
            except TooManyRequests as error:
                if not _fits(error, deadline):
                    raise
                await asyncio.sleep(error.retry_after_seconds or 0)

    @asynccontextmanager
    async def stream(self, call: ApiRequest, silence_seconds: float) -> AsyncGenerator[AsyncGenerator[list[bytes]]]:
        """The lines of an answer that goes on, as `lines.batches` gives them."""
        with self._translated_errors():
            async with asyncio.timeout(self.deadline_seconds):
                response = await self._request(call)
            try:
                yield line_reader.read_line_batches(response.content, silence_seconds)
            finally:
                _drop(response)

    async def _sent(self, call: ApiRequest, deadline: float) -> bytes:
        with self._translated_errors():
            async with asyncio.timeout_at(deadline), await self._request(call) as response:
                return await response.read()

    async def _request(self, call: ApiRequest) -> aiohttp.ClientResponse:
        """An answer that is a success."""
        response = await self._http().request(
            call.method,
            URL(f"{self.access.url}{call.path}{_query(call.query)}", encoded=True),
            data=None if call.body is None else msgspec.json.encode(call.body),
            headers={"Content-Type": call.content_type, "Accept": call.accept} | self._authorization(),
            allow_redirects=False,
            server_hostname=self.access.server_name or None,
        )
        if response.status not in _DONE:
            async with response:
                body = await response.content.read(_LONGEST_REFUSAL_BYTES)
                raise error_from_response(response.status, body, response.headers.get("Retry-After"))
        return response

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session(self.access, self._connections)
        return self._session

    def _authorization(self) -> dict[str, str]:
        try:
            token = self.access.read_token()
        except (OSError, ValueError) as error:
            source = f"token file {self.access.token_file}" if self.access.token_file else "the kubeconfig's token"
            raise Unauthorized(f"{source}: {error}") from error
        return {"Authorization": f"Bearer {token}"} if token else {}

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        """Time that ran out and connections that failed become Unavailable, with the API server's URL."""
        try:
            yield
        except TimeoutError as error:
            raise Unavailable(f"{self.access.url}: no answer within {self.deadline_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{self.access.url}: {type(error).__name__}: {error}") from error


def _fits(error: ApiError, deadline: float) -> bool:
    wait = error.retry_after_seconds
    return wait is not None and asyncio.get_running_loop().time() + wait < deadline


def _query(query: Mapping[str, str]) -> str:
    return f"?{urlencode(query)}" if query else ""


def _drop(response: aiohttp.ClientResponse) -> None:
    """Ends the line without TLS's farewell, which a silent peer would never answer."""
    line = response.connection and response.connection.transport
    if line is not None:
        line.abort()
    response.close()
