"""The listener that the other replicas ask: the journal of this one, at the paths where people ask too.

It is a listener of its own: who may ask kube-scheduler's for placements may ask no replica, and the other way round.
What it is asked for it answers for this process alone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from extender.api.app import api_handler, errors_as_json
from extender.api.handlers import ApiHandlers
from extender.api.live import LiveState
from extender.api.routes import PREFIX, ROUTES
from extender.api.sources import ApiSources
from extender.client_errors import map_client_errors
from extender.page_handlers import PageHandlers
from extender.peers import headers
from extender.peers.client import PeerClient
from extender.peers.replicas import ReplicaSettings
from leadsman.runtime.http_server import serve, track_request
from leadsman.runtime.mutual_tls import MutualTls

SHARED_PATHS = frozenset({"/decisions", "/decisions/{id}", "/pods/{namespace}/{name}", "/policies"})
"""Of the API; beside them the pages /explain and /decisions."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ReplicaServer:
    """tls: of the listener. others: the other replicas. Both None without settings: then nothing is served or asked.

    UnusableFile when the certificate cannot be used.
    """

    def __init__(self, settings: ReplicaSettings | None) -> None:
        self._settings = settings
        self.tls = MutualTls(settings.files) if settings else None
        self.others = PeerClient(settings.hosts, settings.client_tls()) if settings else None

    @asynccontextmanager
    async def serving(self, sources: ApiSources) -> AsyncIterator[Mapping[str, Coroutine[Any, Any, None]]]:
        """Serves, and can ask the others, until the block ends. Yields the loops to run meanwhile, by name.

        OSError when the port is taken.
        """
        if not (self._settings and self.tls and self.others):
            yield {}
            return
        async with self.others, serve(create_replica_app(sources), *self._settings.listen, tls=self.tls) as port:
            self.others.own_port = port
            yield {"reload the replicas' certificate": self.tls.follow()}


def create_replica_app(sources: ApiSources) -> web.Application:
    """Builds the application."""
    app = web.Application(middlewares=[track_request, _with_name(sources.replica), errors_as_json, _client_errors])
    handlers = ApiHandlers(LiveState(sources), asks_replicas=False)
    for route in ROUTES:
        if route.path in SHARED_PATHS:
            app.router.add_get(PREFIX + route.path, api_handler(route, handlers))
    pages = PageHandlers(sources.inputs, sources.journal, sources.workers, replica=sources.replica)
    app.add_routes([web.get("/explain", pages.explain), web.get("/decisions", pages.decisions)])
    return app


def _with_name(name: str) -> Middleware:
    @web.middleware
    async def named(request: web.Request, handler: _Handler) -> web.StreamResponse:
        response = await handler(request)
        response.headers[headers.NAME] = name
        return response

    return named


@web.middleware
async def _client_errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    return await map_client_errors(request, handler)
