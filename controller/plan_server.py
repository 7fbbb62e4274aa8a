"""The listener that extenders ask for this controller's plan, over mutual TLS.

The port of metrics shows the plan too, to all who may scrape. What a page shows is read here, where both ends show who
they are.
"""

import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from leadsman.published.plan_summary import PlanSummary
from leadsman.runtime.http_server import serve, track_request
from leadsman.runtime.mutual_tls import MutualTls, TlsFiles
from leadsman.runtime.process_name import with_name

PATH = "/api/v1/plan"


class PlanServerSettings(Struct, frozen=True):
    """listen: host and port.

    folder: with tls.crt, tls.key and ca.crt, as a Secret is mounted. client_names: of extenders' certificates.
    """

    listen: tuple[str, int]
    folder: Path
    client_names: frozenset[str]


class PlanServer:
    """settings: None: nothing is served, and `tls` is None.

    UnusableFile when the certificate cannot be used.
    """

    def __init__(self, settings: PlanServerSettings | None, summary: Callable[[], PlanSummary]) -> None:
        self._settings, self._summary = settings, summary
        self.tls = MutualTls(_files(settings), prefix="replica_") if settings else None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Mapping[str, Coroutine[Any, Any, None]]]:
        """Serves until the block ends. Yields the loops to run meanwhile, by name. OSError when the port is taken."""
        if not (self._settings and self.tls):
            yield {}
            return
        async with serve(create_plan_app(self._summary), *self._settings.listen, tls=self.tls):
            yield {"reload the plan's certificate": self.tls.follow()}


def create_plan_app(summary: Callable[[], PlanSummary]) -> web.Application:
    """Builds the application."""

    async def plan(_: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(summary()), content_type="application/json")

    # In a cluster the pod's name is its host name.
    app = web.Application(middlewares=[track_request, with_name(socket.gethostname())])
    app.router.add_get(PATH, plan)
    return app


def _files(settings: PlanServerSettings) -> TlsFiles:
    folder = settings.folder
    return TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt", settings.client_names)
