"""The listener of the API and the page, as a process runs it beside its others."""

import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from extender.api.access import LOOPBACK_HOSTS, AccessGuard
from extender.api.app import create_api_app
from extender.api.live import LiveState
from extender.api.sources import ApiSources
from extender.api.token_access import TokenAccess
from extender.page.bundle import bundle, content_security_policy
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.runtime.http_server import serve
from leadsman.runtime.server_tls import ServerTls

_log = logging.getLogger(__name__)

_Loop = Coroutine[Any, Any, None]


class PageSettings(Struct, frozen=True):
    """Where the API and the page are served.

    listen: host and port. On a loopback address no token is asked for; any other one needs `certificate`, `key`, `api`.
    hosts: names, besides those of loopback, that requests may be for.
    certificate, key: files in PEM; None: plain HTTP.
    api: the API server that says whose a token is; None: no token is asked for.
    """

    listen: tuple[str, int]
    hosts: frozenset[str] = frozenset()
    certificate: Path | None = None
    key: Path | None = None
    api: ApiAccess | None = None

    def __post_init__(self) -> None:
        if self.listen[0] not in LOOPBACK_HOSTS and not (self.certificate and self.key and self.api):
            raise ValueError(
                f"--page-listen {self.listen[0]}:{self.listen[1]}: beyond loopback it needs certificates and the API"
                " server; give --tls-cert and --tls-key and run in a cluster, or listen on 127.0.0.1"
            )


class PageServer:
    """`async with` its `serving`, and run its tasks.

    UnusableFile when the certificate cannot be used.
    """

    def __init__(self, settings: PageSettings, sources: ApiSources) -> None:
        self._settings = settings
        self.live = LiveState(sources)
        is_open = settings.listen[0] in LOOPBACK_HOSTS
        self._client = ApiClient(settings.api, deadline_seconds=3.0) if settings.api and not is_open else None
        self._tls = ServerTls(settings.certificate, settings.key) if settings.certificate and settings.key else None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Yields the port."""
        async with AsyncExitStack() as stack:
            check = TokenAccess(await stack.enter_async_context(self._client)).check if self._client else None
            guard = AccessGuard(LOOPBACK_HOSTS | self._settings.hosts, check)
            app = create_api_app(self.live, guard, bundle(), _page_headers())
            yield await stack.enter_async_context(serve(app, *self._settings.listen, tls=self._tls))

    def tasks(self) -> Iterator[tuple[str, _Loop]]:
        """Name and loop of each; all run until cancelled."""
        yield "keep the page's history", self.live.run()
        if self.live.sources.replicas:
            yield "ask the other replicas", self.live.replicas.run()
        if self._tls:
            yield "reload the page's certificate", self._tls.follow()


@asynccontextmanager
async def page_loops(settings: PageSettings | None, sources: ApiSources) -> AsyncIterator[Mapping[str, _Loop]]:
    """Serves until the block ends. Yields the loops to run meanwhile, by name. settings: None: nothing is served.

    UnusableFile when the certificate cannot be used, OSError when the port is taken.
    """
    if settings is None:
        yield {}
        return
    server = PageServer(settings, sources)
    async with server.serving() as port:
        _log.info("serving the page and its API on port %d", port)
        yield dict(server.tasks())


def _page_headers() -> Mapping[str, str]:
    return {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": content_security_policy(),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
