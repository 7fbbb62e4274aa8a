"""The operators' HTTP side of a process: /metrics, /healthz, /readyz, /startupz. Serve it with `http_server.serve`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from leadsman.runtime.http_server import track_request

STARTUP_SECONDS = 25.0
"""After which nobody waits for a start: below the timeout of the manifests' startupProbe."""

STARTUP_POLL_SECONDS = 0.1
MOST_WAITING = 8
"""For the end of a start at once. Others get their response without a wait: a client that waits keeps its connection,
and the kubelet needs one of them for /healthz."""


class Health(NamedTuple):
    """What a health check found. is_good: 200, else 503. text: the response, one finding a line."""

    is_good: bool
    text: str = "ok"


HealthCheck = Callable[[], Health]
"""Answers from memory, without I/O."""


def good_unless(problem: str) -> Health:
    """Good when there is no problem, which is ""."""
    return Health(False, problem) if problem else Health(True)


def create_ops_app(
    registry: CollectorRegistry, healthz: HealthCheck, readyz: HealthCheck, startup_seconds: float = STARTUP_SECONDS
) -> web.Application:
    """Builds the application; a process adds its own pages. /metrics is sent with gzip to clients that accept it.

    healthz: the process's own loops and threads alone. A restart mends nothing else.
    readyz: whether others should send it work.

    /startupz is answered when `readyz` is good for the first time that it is looked at, at the latest after
    `startup_seconds`, and always with 200: a kubelet notes each probe that fails as a Warning, and a start is no fault.
    """
    app = web.Application(middlewares=[track_request])
    app.router.add_get("/metrics", make_aiohttp_handler(registry))
    app.router.add_get("/healthz", _handler(healthz))
    app.router.add_get("/readyz", _handler(readyz))
    app.router.add_get("/startupz", _startup_handler(readyz, startup_seconds))
    return app


def _handler(check: HealthCheck) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_: web.Request) -> web.Response:
        health = check()
        return web.Response(status=200 if health.is_good else 503, text=f"{health.text}\n")

    return handle


def _startup_handler(check: HealthCheck, startup_seconds: float) -> Callable[[web.Request], Awaitable[web.Response]]:
    waiting = asyncio.Semaphore(MOST_WAITING)

    async def handle(_: web.Request) -> web.Response:
        health = check()
        if not waiting.locked():
            async with waiting:
                for _attempt in range(round(startup_seconds / STARTUP_POLL_SECONDS)):
                    if health.is_good:
                        break
                    await asyncio.sleep(STARTUP_POLL_SECONDS)
                    health = check()
        return web.Response(text=f"{health.text}\n")

    return handle
