"""The operators' HTTP side of a process: /metrics, /healthz and /readyz. Serve it with `http_server.serve`."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from leadsman.runtime.http_server import track_request


class Health(NamedTuple):
    """What a health check found. is_good: 200, else 503. text: the response, one finding a line."""

    is_good: bool
    text: str = "ok"


HealthCheck = Callable[[], Health]
"""Answers from memory, without I/O."""


def good_unless(problem: str) -> Health:
    """Good when there is no problem, which is ""."""
    return Health(False, problem) if problem else Health(True)


def create_ops_app(registry: CollectorRegistry, healthz: HealthCheck, readyz: HealthCheck) -> web.Application:
    """Builds the application; a process adds its own pages. /metrics is sent with gzip to clients that accept it.

    healthz: the process's own loops and threads alone. A restart mends nothing else.
    readyz: whether others should send it work.
    """
    app = web.Application(middlewares=[track_request])
    app.router.add_get("/metrics", make_aiohttp_handler(registry))
    app.router.add_get("/healthz", _handler(healthz))
    app.router.add_get("/readyz", _handler(readyz))
    return app


def _handler(check: HealthCheck) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_: web.Request) -> web.Response:
        health = check()
        return web.Response(status=200 if health.is_good else 503, text=f"{health.text}\n")

    return handle
