"""Reads request bodies within limits of memory and time. aiohttp has no read deadline, and its 1 MiB is too small.

What bounds memory is the sum over all requests that are being answered: their bodies, and what was decoded of them. The
form of a body is known only once it is decoded, and kube-scheduler's default is the node form (nodeCacheCapable:
false), so the default limits are the node form's. Where the scheduler is set to the names form, NAMES_FORM_LIMITS is
tighter.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import hdrs, web
from msgspec import Struct


class RequestRefused(Exception):
    """Refuses a request through the client's fault, with an HTTP status and a text that says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class BodyLimits(Struct, frozen=True):
    """Limits of request bodies.

    max_body_bytes: of one body; 5,000 full nodes are 45 MB.
    max_held_bytes: of all bodies at one moment, with what was decoded of them. The manifest allows 512 MiB, of which
        the extender needs 270 under load, known nodes 48 and one decode up to 50 for a moment.
    read_timeout_seconds: for one body to arrive whole.
    """

    max_body_bytes: int = 96 << 20
    max_held_bytes: int = 128 << 20
    read_timeout_seconds: float = 10.0


NODE_FORM_LIMITS = BodyLimits()
NAMES_FORM_LIMITS = BodyLimits(max_body_bytes=4 << 20)


class HeldBody:
    """A request's body in memory, and what it counts against the limit of all bodies.

    data: its bytes, less what was taken from their front while they came; not altered once they are all there.
    received_bytes: of the whole body.
    """

    def __init__(self, reader: "BodyReader") -> None:
        self._reader = reader
        self.data = bytearray()
        self.received_bytes = self.decoded_bytes = 0

    def charge(self, decoded_bytes: int) -> None:
        """Counts what the body takes decoded, until it is given back. Raises RequestRefused: 413 when no other request
        could make room for it, otherwise 429."""
        self.decoded_bytes += decoded_bytes
        self._reader.held_bytes += decoded_bytes
        self._reader.check_held(self)


class BodyReader:
    """Reads bodies and counts their memory. held_bytes: of all requests that are being answered."""

    def __init__(self, limits: BodyLimits = NODE_FORM_LIMITS) -> None:
        self._limits = limits
        self.held_bytes = 0

    @asynccontextmanager
    async def read(
        self, request: web.BaseRequest, take: Callable[[bytearray], None] = lambda _: None
    ) -> AsyncIterator[HeldBody]:
        """Reads the body, which counts as held until the block ends. Raises RequestRefused: 400, 408, 413, 415, 429.

        take: called with the data whenever more of it has come; may take some from its front, which still counts.
        """
        self._check(request)
        body = HeldBody(self)
        try:
            await self._fill(body, request, take)
            yield body
        finally:
            self.held_bytes -= body.received_bytes + body.decoded_bytes

    def _check(self, request: web.BaseRequest) -> None:
        encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity")
        if encoding.lower() != "identity":
            raise RequestRefused(
                415, f"Content-Encoding {encoding[:40]!r} is not supported; send the body uncompressed"
            )
        if (request.content_length or 0) > self._limits.max_body_bytes:
            raise self._too_large()

    async def _fill(self, body: HeldBody, request: web.BaseRequest, take: Callable[[bytearray], None]) -> None:
        try:
            async with asyncio.timeout(self._limits.read_timeout_seconds):
                async for chunk in request.content.iter_any():
                    body.data += chunk
                    body.received_bytes += len(chunk)
                    self.held_bytes += len(chunk)
                    self.check_held(body)
                    take(body.data)
        except TimeoutError as error:
            raise RequestRefused(
                408, f"request body did not arrive within {self._limits.read_timeout_seconds:g} s"
            ) from error
        except web.RequestPayloadError as error:
            raise RequestRefused(400, f"request body cannot be read: {error}") from error

    def check_held(self, body: HeldBody) -> None:
        """Raises RequestRefused when this body, or all together, take more than the limits."""
        if body.received_bytes > self._limits.max_body_bytes:
            raise self._too_large()
        if body.received_bytes + body.decoded_bytes > self._limits.max_held_bytes:
            raise RequestRefused(
                413,
                f"request body of {body.received_bytes} bytes would need {body.received_bytes + body.decoded_bytes} "
                f"bytes decoded, more than the limit of {self._limits.max_held_bytes}; {_SEND_NAMES}",
            )
        if self.held_bytes > self._limits.max_held_bytes:
            raise RequestRefused(
                429, f"requests that are being answered need more than {self._limits.max_held_bytes} bytes; retry later"
            )

    def _too_large(self) -> RequestRefused:
        limit = self._limits.max_body_bytes
        return RequestRefused(413, f"request body is larger than the limit of {limit} bytes; {_SEND_NAMES}")


_SEND_NAMES = "set nodeCacheCapable: true in kube-scheduler's configuration, so that it sends names and not objects"
