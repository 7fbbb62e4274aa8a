"""Lines of a stream, of any length up to a bound. aiohttp's own readline gives up at a few hundred KiB."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

from leadsman.kube.errors import MalformedResponse, StreamSilent

LONGEST_LINE_BYTES = 16 << 20
"""etcd takes 1.5 MiB by default; an object has no more in JSON than some of them."""


class ByteStream(Protocol):
    """b"" at the end."""

    async def readany(self) -> bytes: ...


async def read_line_batches(content: ByteStream, silence_seconds: float) -> AsyncGenerator[list[bytes]]:
    """The whole lines of each chunk, until the stream is closed; what was not ended by then is dropped.

    Silent when no byte comes for `silence_seconds`, Garbled when a line is too long.
    """
    begun = bytearray()
    while chunk := await _chunk(content, silence_seconds):
        begun += chunk
        if b"\n" in chunk:
            *whole, rest = bytes(begun).split(b"\n")
            begun = bytearray(rest)
            yield [line for line in whole if line.strip()]
        if len(begun) > LONGEST_LINE_BYTES:
            raise MalformedResponse(f"a line of more than {LONGEST_LINE_BYTES} bytes")


async def _chunk(content: ByteStream, silence_seconds: float) -> bytes:
    try:
        async with asyncio.timeout(silence_seconds):
            return await content.readany()
    except TimeoutError as error:
        raise StreamSilent(f"silent for {silence_seconds:g} s") from error
