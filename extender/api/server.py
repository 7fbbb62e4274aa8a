"""The listener of the API and the page, as a process runs it beside its others."""

import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from extender.api.app import create_api_app
from extender.api.live import LiveState
from extender.api.sources import ApiSources
from extender.page.bundle import bundle, content_security_policy
from leadsman.runtime.http_server import serve

_log = logging.getLogger(__name__)


class ApiServer:
    """`async with` its `serving`, and run its loops."""

    def __init__(self, sources: ApiSources) -> None:
        self.live = LiveState(sources)

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Yields the port. OSError when it is taken."""
        async with serve(create_api_app(self.live, bundle(), _page_headers()), host, port) as taken:
            _log.info("serving the page and the API on port %d", taken)
            yield taken

    def loops(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Name and loop of each; all run until cancelled."""
        yield "keep the page's history", self.live.run()


def _page_headers() -> Mapping[str, str]:
    return {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": content_security_policy(),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
