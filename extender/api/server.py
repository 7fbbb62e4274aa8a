"""The listener of the API and the page, as a process runs it beside its others."""

import importlib
import importlib.util
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from extender.api.access import LOOPBACK_HOSTS, AccessGuard
from extender.api.app import Bundle, create_api_app
from extender.api.live import LiveState
from extender.api.sources import ApiSources
from extender.api.token_access import TokenAccess
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.runtime.http_server import serve
from leadsman.runtime.server_tls import ServerTls


class PageSettings(Struct, frozen=True):
    """Where the API and the page are served.

    listen: host and port. On a loopback address no token is asked for; any other one needs `certificate`, `key`, `api`.
    hosts: names, besides those of loopback, that requests may be for.
    certificate, key: files in PEM; None: plain HTTP.
    api: the API server that says whose a token is; None: no token is asked for.
    replica: name of this process.
    """

    listen: tuple[str, int]
    hosts: frozenset[str] = frozenset()
    certificate: Path | None = None
    key: Path | None = None
    api: ApiAccess | None = None
    replica: str = ""

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
            app = create_api_app(self.live, guard, *_page_files())
            yield await stack.enter_async_context(serve(app, *self._settings.listen, tls=self._tls))

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Name and loop of each; all run until cancelled."""
        yield "keep the page's history", self.live.run()
        if self._tls:
            yield "reload the page's certificate", self._tls.follow()


def _page_files() -> tuple[Bundle, Mapping[str, str]]:
    """The page's files and its headers."""
    if importlib.util.find_spec("extender.page") is None:
        return {}, {}
    page = importlib.import_module("extender.page.bundle")
    headers = {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": page.content_security_policy(),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return page.bundle(), headers
