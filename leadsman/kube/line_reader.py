"""Reads lines of a stream, of any length up to a limit. aiohttp's own readline fails at a few hundred KiB."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

from leadsman.kube.errors import MalformedResponse, StreamSilent

LONGEST_LINE_BYTES = 16 << 20
"""etcd stores values up to 1.5 MiB by default; an object in JSON is at most a few times as long."""


class ByteStream(Protocol):
    """A stream of bytes, as aiohttp.StreamReader."""

    async def readany(self) -> bytes:
        """Some bytes; b"" at the end."""


async def read_line_batches(content: ByteStream, silence_seconds: float) -> AsyncGenerator[list[bytes]]:
    """The complete lines of each chunk, until the stream is closed; an incomplete last line is dropped.

    StreamSilent when no byte comes for `silence_seconds`, MalformedResponse when a line is too long.
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


async def _chunk(content: ByteStream, silence_seconds: float) -> bytes:
    try:
        async with asyncio.timeout(silence_seconds):
            return await content.readany()
    except TimeoutError as error:
        raise StreamSilent(f"no data on the stream for {silence_seconds:g} s") from error
