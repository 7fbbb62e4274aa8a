"""The time between SIGTERM and the end, in which a server is unready and still answers.

Its callers learn late that it goes: Kubernetes sends SIGTERM when it marks the pod's endpoint as terminating, and each
node's kube-proxy follows some time after. A listener that closes at once refuses the connections made until then.
"""

import asyncio
import contextlib
import logging

from aiohttp import hdrs, web

log = logging.getLogger(__name__)


class Drain:
    """Lasts `seconds` from the signal on; 0: no drain.

    has_begun: the server is unready.
    over: set when the server should end.
    """

    def __init__(self, seconds: float) -> None:
        self.has_begun = False
        self.over = asyncio.Event()
        self._seconds = seconds

    async def run(self, stop: asyncio.Event) -> None:
        """Begins when `stop` is set. A second signal, such as Ctrl-C, sets it again and ends the drain."""
        await stop.wait()
        stop.clear()
        self.has_begun = True
        log.info("draining: unready, and still answering for %g s; a second signal ends it now", self._seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await stop.wait()
        self.over.set()

    async def close_connection(self, _: web.Request, response: web.StreamResponse) -> None:
        """For an application's `on_response_prepare`: the client opens its next connection, to a server that stays."""
        if self.has_begun:
            response.headers[hdrs.CONNECTION] = "close"
            response.force_close()
