"""A server that answers as custom metrics APIs and Prometheus do, as told by the test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from msgspec import Struct, field


class Answering(Struct):
    """answers: path → JSON, or a status. asked: paths, the oldest first."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        self.queries.append(request.query.get("query", ""))
        answer = self.answers.get(request.path, 404)
        if isinstance(answer, int):
            return web.json_response({"kind": "Status", "message": "as the test wants", "code": answer}, status=answer)
        return web.json_response(answer)


@pytest.fixture
async def server() -> AsyncIterator[Answering]:
    answering = Answering()
    runner = web.ServerRunner(web.Server(answering.handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    answering.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield answering
    await runner.cleanup()
