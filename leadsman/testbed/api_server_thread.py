"""The fake API server on a thread of its own, for callers that are not asynchronous.

with ApiServerThread() as api:
    api.put("/api/v1/namespaces/default/pods/web-0", {...})
    api.url
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from leadsman.testbed.fake_api_server import FakeApiServer

T = TypeVar("T")

_PATIENCE_SECONDS = 10.0


class ApiServerThread:
    """A FakeApiServer whose methods run on its own loop and return when they are done. options: of FakeApiServer."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake API server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._wait(self._started())
        self.url = self._server.url
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._server.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_SECONDS)
        self._loop.close()

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self.call(lambda server: server.put(path, body))

    def delete(self, path: str) -> None:
        self.call(lambda server: server.delete(path))

    def call(self, work: Callable[[FakeApiServer], T]) -> T:
        async def done() -> T:
            return work(self._server)

        return self._wait(done())

    async def _started(self) -> FakeApiServer:
        return await FakeApiServer(**self._options).__aenter__()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_PATIENCE_SECONDS)
