"""Reads the lines of a streaming call to etcd."""

import asyncio
from collections import deque

import aiohttp

from leadsman.state.store import Compacted, Unavailable

LONGEST_LINE_BYTES = 16 << 20
"""Of a watch. etcd divides its messages at its own limit of a request, 2 MiB and 2.8 MB in JSON unless an operator
raised it. A listing, which comes in pages, replaces a larger message."""


class LineReader:
    """Reads lines of any length up to LONGEST_LINE_BYTES. aiohttp's own readline fails at a few hundred KiB."""

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
            raise Unavailable("etcd closed the stream")
        self._begun += chunk or b"\n"
        if b"\n" in self._begun[-len(chunk) - 1 :]:
            *whole, rest = bytes(self._begun).split(b"\n")
            self._whole.extend(whole)
            self._begun = bytearray(rest)
        if len(self._begun) > LONGEST_LINE_BYTES:
            raise Compacted(f"watch message larger than {LONGEST_LINE_BYTES} bytes")
