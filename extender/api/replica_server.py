"""The listener that the other replicas ask: the journal of this one, at the paths where people ask too.

It is a listener of its own: who may ask kube-scheduler's for placements may ask no replica, and the other way round.
What it is asked for it answers for this process alone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web

from extender.api.app import api_handler, errors_as_json
from extender.api.handlers import ApiHandlers
from extender.api.live import LiveState
from extender.api.routes import PREFIX, ROUTES
from extender.api.sources import ApiSources
from extender.client_errors import map_client_errors
from extender.page_handlers import PageHandlers
from extender.peers.client import PeerClient
from extender.peers.replicas import ReplicaSettings
from leadsman.runtime.http_server import serve, track_request
from leadsman.runtime.mutual_tls import MutualTls
from leadsman.runtime.process_name import with_name

SHARED_PATHS = frozenset({"/decisions", "/decisions/{id}", "/pods/{namespace}/{name}", "/policies", "/rates"})
"""Of the API; beside them the pages /explain and /decisions."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ReplicaServer:
    """tls: of the listener. others: the other replicas. controllers: None: they are not asked.

    UnusableFile when the certificate cannot be used.
    """

    def __init__(self, settings: ReplicaSettings) -> None:
        self._settings = settings
        self.tls = MutualTls(settings.files, prefix="replica_")
        client_tls = settings.client_tls()
        self.others = PeerClient(settings.hosts, client_tls)
        self.controllers = (
            PeerClient(settings.controllers, client_tls, certificate_name=settings.hosts[0][0])
            if settings.controllers
            else None
        )

    @asynccontextmanager
    async def serving(self, sources: ApiSources) -> AsyncIterator[Mapping[str, Coroutine[Any, Any, None]]]:
        """Serves, and can ask the others, until the block ends. Yields the loops to run meanwhile, by name.

        OSError when the port is taken.
        """
        live = LiveState(sources)
        async with AsyncExitStack() as stack:
            for client in filter(None, (self.others, self.controllers)):
                await stack.enter_async_context(client)
            app = create_replica_app(live)
            self.others.own_port = await stack.enter_async_context(serve(app, *self._settings.listen, tls=self.tls))
            yield {
                "reload the replicas' certificate": self.tls.follow(),
                "count decisions for the other replicas": live.count_decisions(),
            }


def create_replica_app(live: LiveState) -> web.Application:
    """Builds the application. Run `live.count_decisions` beside it."""
    sources = live.sources
    app = web.Application(middlewares=[track_request, with_name(sources.replica), errors_as_json, _client_errors])
    handlers = ApiHandlers(live, asks_replicas=False)
    for route in ROUTES:
        if route.path in SHARED_PATHS:
            app.router.add_get(PREFIX + route.path, api_handler(route, handlers))
    pages = PageHandlers(sources.inputs, sources.journal, sources.workers, replica=sources.replica)
    app.add_routes([web.get("/explain", pages.explain), web.get("/decisions", pages.decisions)])
    return app


@web.middleware
async def _client_errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    return await map_client_errors(request, handler)
