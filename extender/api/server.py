"""The listeners of the API and the page, as a process runs them beside its others."""

import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from extender.api.access import AccessGuard
from extender.api.app import create_api_app
from extender.api.live import LiveState
from extender.api.prometheus_history import PrometheusHistory
from extender.api.settings import LOOPBACK_HOSTS, PageSettings
from extender.api.sign_in import sign_in
from extender.api.sources import ApiSources
from extender.api.token_access import TokenAccess
from extender.page.bundle import bundle, content_security_policy
from leadsman.kube.client import ApiClient
from leadsman.runtime.http_server import serve
from leadsman.runtime.server_tls import ServerTls

_log = logging.getLogger(__name__)

_Loop = Coroutine[Any, Any, None]


class PageServer:
    """`async with` its `serving`, and run its tasks.

    UnusableFile when the certificate cannot be used.
    """

    def __init__(self, settings: PageSettings, sources: ApiSources) -> None:
        self._settings = settings
        self.live = LiveState(sources, PrometheusHistory(settings.prometheus) if settings.prometheus else None)
        service = settings.service
        self._tls = ServerTls(service.certificate, service.key) if service else None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Sequence[int]]:
        """Yields the ports: the local one's, then the service's."""
        async with AsyncExitStack() as stack:
            ports = []
            if self.live.prometheus:
                await stack.enter_async_context(self.live.prometheus)
            if local := self._settings.local:
                app = create_api_app(self.live, AccessGuard(LOOPBACK_HOSTS, None), bundle(), _page_headers())
                ports.append(await stack.enter_async_context(serve(app, *local)))
            if service := self._settings.service:
                client = await stack.enter_async_context(ApiClient(service.api, deadline_seconds=3.0))
                guard = AccessGuard(LOOPBACK_HOSTS | service.hosts, TokenAccess(client).check)
                app = create_api_app(self.live, guard, bundle(), _page_headers(), [sign_in(guard)])
                ports.append(await stack.enter_async_context(serve(app, *service.listen, tls=self._tls)))
            yield ports

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Mapping[str, _Loop]]:
        """Serves until the block ends. Yields the loops to run meanwhile, by name. OSError when the port is taken."""
        async with self.serving() as ports:
            _log.info("serving the page and its API on port %s", " and ".join(map(str, ports)))
            yield dict(self.tasks())

    def tasks(self) -> Iterator[tuple[str, _Loop]]:
        """Name and loop of each; all run until cancelled."""
        yield "keep the page's history", self.live.run()
        if self._tls:
            yield "reload the page's certificate", self._tls.follow()


def _page_headers() -> Mapping[str, str]:
    return {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": content_security_policy(),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
