"""Request bodies, read within a cap and a deadline: aiohttp has no read deadline, and its cap of 1 MiB is too small.

The form of a body is known only once it is decoded, and kube-scheduler's default is the node form
(nodeCacheCapable: false), so the cap that works for everybody is the node form's. What bounds memory is the sum
of all bodies held at once. Where the scheduler is set to the names form, NAMES_FORM_LIMITS is tighter.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import hdrs, web
from msgspec import Struct


class RequestRefused(Exception):
    """Not answered, by the client's own fault: an HTTP status and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class BodyLimits(Struct, frozen=True):
    """largest_bytes: of one body; 5,000 full nodes are 45 MB. total_bytes: of all that are held at one moment."""

    max_body_bytes: int = 256 << 20
    max_held_bytes: int = 512 << 20
    read_timeout_seconds: float = 10.0


NODE_FORM_LIMITS = BodyLimits()
NAMES_FORM_LIMITS = BodyLimits(max_body_bytes=4 << 20, max_held_bytes=64 << 20)


class BodyReader:
    def __init__(self, caps: BodyLimits = NODE_FORM_LIMITS) -> None:
        self._caps = caps
        self.held_bytes = 0

    @asynccontextmanager
    async def read(self, request: web.BaseRequest) -> AsyncIterator[bytearray]:
        """The body, counted as held until the block ends. Refused: 408, 413, 415, 429."""
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
            raise RequestRefused(415, f"Content-Encoding {encoding[:40]!r}; only identity, nothing is decompressed")
        if (request.content_length or 0) > self._caps.max_body_bytes:
            raise self._too_large(f"{request.content_length} bytes")

    async def _fill(self, body: bytearray, request: web.BaseRequest) -> None:
        try:
            async with asyncio.timeout(self._caps.read_timeout_seconds):
                async for chunk in request.content.iter_any():
                    body += chunk
                    self.held_bytes += len(chunk)
                    self._check_held(body)
        except TimeoutError as error:
            raise RequestRefused(408, f"body not complete within {self._caps.read_timeout_seconds:g} s") from error
        except web.RequestPayloadError as error:
            raise RequestRefused(400, f"body cannot be read: {error}") from error

    def _check_held(self, body: bytearray) -> None:
        if len(body) > self._caps.max_body_bytes:
            raise self._too_large("body")
        if self.held_bytes > self._caps.max_held_bytes:
            raise RequestRefused(429, f"bodies of other requests fill the {self._caps.max_held_bytes} bytes; try again")

    def _too_large(self, what: str) -> RequestRefused:
        return RequestRefused(413, f"{what} over the cap of {self._caps.max_body_bytes} bytes")
