"""Server-sent events: which sections changed, to a bounded number of readers that keep up.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from extender.api.contract.overview import ChangeEvent

MAX_STREAMS = 32
MAX_BEHIND = 8
"""Events that a reader may be behind; then its stream ends, and the browser connects again and reads all."""

KEEP_ALIVE_SECONDS = 3.0
"""Within which a reader that left is noticed, and its place free again."""

_KEEP_ALIVE = b": nothing changed\n\n"


class TooManyStreams(Exception):
    """There are MAX_STREAMS already."""


class ChangeStreams:
    """Use from one event loop."""

    def __init__(self) -> None:
        self._queues = set[asyncio.Queue[bytes | None]]()

    def __len__(self) -> int:
        return len(self._queues)

    def send(self, event: ChangeEvent) -> None:
        """To all streams. Never blocks: the stream of a reader that is too far behind ends."""
        data = b"event: change\ndata: " + msgspec.json.encode(event) + b"\n\n"
        for queue in list(self._queues):
            if queue.qsize() >= MAX_BEHIND:
                self._queues.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(data)

    def close(self) -> None:
        """Ends all streams."""
        for queue in list(self._queues):
            self._queues.discard(queue)
            queue.put_nowait(None)

    def open(self) -> AsyncGenerator[bytes]:
        """What to write to one reader. TooManyStreams."""
        if len(self._queues) >= MAX_STREAMS:
            raise TooManyStreams
        queue = asyncio.Queue[bytes | None]()
        self._queues.add(queue)
        return self._events(queue)

    async def _events(self, queue: asyncio.Queue[bytes | None]) -> AsyncGenerator[bytes]:
        try:
            yield _KEEP_ALIVE
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        data = await queue.get()
                except TimeoutError:
                    data = _KEEP_ALIVE
                if data is None:
                    return
                yield data
        finally:
            self._queues.discard(queue)
