"""Reads request bodies within size limits and a deadline: aiohttp has no read deadline, and its 1 MiB is too small.

The form of a body is known only once it is decoded, and kube-scheduler's default is the node form
(nodeCacheCapable: false), so the default limits are the node form's. The sum of all bodies held at once is what
bounds memory. Where the scheduler is set to the names form, NAMES_FORM_LIMITS is tighter.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import hdrs, web
from msgspec import Struct


class RequestRefused(Exception):
    """A request that is not answered because of the client: an HTTP status and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class BodyLimits(Struct, frozen=True):
    """Limits of request bodies.

    max_body_bytes: of one body; 5,000 full nodes are 45 MB.
    max_held_bytes: of all bodies that are in memory at one moment.
    read_timeout_seconds: for one body to arrive whole.
    """

    max_body_bytes: int = 256 << 20
    max_held_bytes: int = 512 << 20
    read_timeout_seconds: float = 10.0


NODE_FORM_LIMITS = BodyLimits()
NAMES_FORM_LIMITS = BodyLimits(max_body_bytes=4 << 20, max_held_bytes=64 << 20)


class BodyReader:
    """Reads bodies and counts those in memory. held_bytes: of all bodies that are being used now."""

    def __init__(self, limits: BodyLimits = NODE_FORM_LIMITS) -> None:
        self._limits = limits
        self.held_bytes = 0

    @asynccontextmanager
    async def read(self, request: web.BaseRequest) -> AsyncIterator[bytearray]:
        """The body, counted as held until the block ends. RequestRefused: 400, 408, 413, 415, 429."""
        self._check(request)
        body = bytearray()
        try:
            await self._fill(body, request)
            yield body
        finally:
            self.held_bytes -= len(body)

    def _check(self, request: web.BaseRequest) -> None:
        encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity")
        if encoding.lower() != "identity":
            raise RequestRefused(
                415, f"Content-Encoding {encoding[:40]!r} is not supported; send the body uncompressed"
            )
        if (request.content_length or 0) > self._limits.max_body_bytes:
            raise self._too_large()

    async def _fill(self, body: bytearray, request: web.BaseRequest) -> None:
        try:
            async with asyncio.timeout(self._limits.read_timeout_seconds):
                async for chunk in request.content.iter_any():
                    body += chunk
                    self.held_bytes += len(chunk)
                    self._check_held(body)
        except TimeoutError as error:
            raise RequestRefused(
                408, f"request body did not arrive within {self._limits.read_timeout_seconds:g} s"
            ) from error
        except web.RequestPayloadError as error:
            raise RequestRefused(400, f"request body cannot be read: {error}") from error

    def _check_held(self, body: bytearray) -> None:
        if len(body) > self._limits.max_body_bytes:
            raise self._too_large()
        if self.held_bytes > self._limits.max_held_bytes:
            raise RequestRefused(
                429, f"request bodies in memory exceed {self._limits.max_held_bytes} bytes; retry later"
            )

    def _too_large(self) -> RequestRefused:
        limit = self._limits.max_body_bytes
        return RequestRefused(413, f"request body is larger than the limit of {limit} bytes")
