"""Serves aiohttp applications and a process's pages for operators, and drains connections before it ends.

Connections have deadlines and caps (`leadsman.runtime.connections`). The pages are /metrics, /healthz, /readyz and
/startupz. Between SIGTERM and the end a server is unready and still answers, because its callers learn late that it
goes: Kubernetes sends SIGTERM when it marks the pod's endpoint as terminating, and each node's kube-proxy follows some
time after. A listener that closes at once refuses the connections made until then.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from leadsman.runtime.connections import CLOSE_TIMEOUT_SECONDS, ConnectionLimiter, ServerLimits, track_request
from leadsman.runtime.log_limit import LogLimit

if TYPE_CHECKING:
    from leadsman.runtime.server_tls import ServerTls

DRAIN_TIMEOUT_SECONDS = 5.0

DEFAULT_LIMITS = ServerLimits()

LISTEN_BACKLOG = 1024
"""A flood that fills the backlog makes a new client wait for its second SYN, which is a second later."""

ACCEPTS_AT_ONCE = 16
"""This many connections are accepted in one turn, so that a flood of connections leaves the event loop time for
requests."""

ACCEPT_RETRY_SECONDS = 1.0


class Listener:
    """Listens on sockets and accepts what connects."""

    def __init__(self, limiter: ConnectionLimiter) -> None:
        self._limiter = limiter
        self._sockets: list[socket.socket] = []

    async def open(self, host: str, port: int) -> int:
        """Returns the port bound. Raises OSError when it is taken.

        0.0.0.0 is every address, as it is for Go's programs: a pod may have an IPv6 address alone.
        """
        everywhere = host == "0.0.0.0" and port  # port 0 would be another one for each family
        made = asyncio.get_running_loop().create_server(
            asyncio.Protocol, None if everywhere else host, port, start_serving=False
        )
        bound = await made
        self._sockets = [each.dup() for each in bound.sockets]
        bound.close()
        for sock in self._sockets:
            sock.setblocking(False)
            sock.listen(LISTEN_BACKLOG)
            self._resume(sock)
        return int(self._sockets[0].getsockname()[1])

    def close(self) -> None:
        for sock in self._sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self._limiter.close()

    def _resume(self, sock: socket.socket) -> None:
        if sock.fileno() >= 0:
            asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            for _ in range(ACCEPTS_AT_ONCE):
                accepted, peer = sock.accept()
                self._limiter.accept(accepted, str(peer[0]))
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            _log.error("cannot accept connections, next attempt in %g s: %s", ACCEPT_RETRY_SECONDS, error)
            loop.remove_reader(sock)
            loop.call_later(ACCEPT_RETRY_SECONDS, self._resume, sock)


@contextlib.asynccontextmanager
async def serve(
    app: web.Application, host: str, port: int, limits: ServerLimits = DEFAULT_LIMITS, tls: "ServerTls | None" = None
) -> AsyncIterator[int]:
    """Listens until the block ends, then answers what has begun, for DRAIN_TIMEOUT_SECONDS at most. Yields the port.

    Every listener of Leadsman is made here, so all of them limit connections alike.
    """
    app.middlewares.insert(0, track_request)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_log,
        handler_cancellation=True,
        auto_decompress=False,
        keepalive_timeout=limits.idle_timeout_seconds,
        lingering_time=CLOSE_TIMEOUT_SECONDS,
        shutdown_timeout=DRAIN_TIMEOUT_SECONDS,
    )
    await runner.setup()
    assert runner.server
    try:
        listener = Listener(ConnectionLimiter(runner.server, limits, tls))
        port = await listener.open(host, port)
        try:
            yield port
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def _name_bad_request(record: logging.LogRecord) -> bool:
    """aiohttp logs a request that cannot be parsed with a traceback; it is the client's fault, and one line."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError) and isinstance(record.args, tuple):
        record.msg = "refused a malformed request from %s: %s"
        record.args = (*record.args, error.message.partition("\n")[0][:MAX_REASON_LENGTH])
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True


MAX_REASON_LENGTH = 200

_log = logging.getLogger(__name__)
_log.addFilter(_name_bad_request)
_log.addFilter(LogLimit())


class Drain:
    """Keeps serving for `seconds` after the signal to stop; 0: no drain.

    has_begun: the server is unready.
    over: set when the server should end.
    """

    def __init__(self, seconds: float) -> None:
        self.has_begun = False
        self.over = asyncio.Event()
        self._seconds = seconds

    async def run(self, stop: asyncio.Event) -> None:
        """Begins the drain when `stop` is set. A second signal, such as Ctrl-C, sets it again and ends the drain."""
        await stop.wait()
        stop.clear()
        self.has_begun = True
        _log.info("draining: not ready, and answering for another %g s; a second signal ends it now", self._seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await stop.wait()
        self.over.set()

    async def close_connection(self, _: web.Request, response: web.StreamResponse) -> None:
        """Has clients connect next to a server that stays, as an application's `on_response_prepare`."""
        if self.has_begun:
            response.headers[hdrs.CONNECTION] = "close"
            response.force_close()


STARTUP_SECONDS = 25.0
"""Nobody waits longer than this for a start: it is below the timeout of the manifests' startupProbe."""

STARTUP_POLL_SECONDS = 0.1
MOST_WAITING = 8
"""This many requests may wait for the end of a start at once. Others get their response without a wait: a client that
waits keeps its connection, and the kubelet needs one of them for /healthz."""


class Health(NamedTuple):
    """Says what a health check found. is_good: 200, else 503. text: the response, one finding a line."""

    is_good: bool
    text: str = "ok"


HealthCheck = Callable[[], Health]
"""Answers from memory, without I/O."""


def good_unless(problem: str) -> Health:
    """Returns a good result when there is no problem, which is ""."""
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
    app = web.Application()
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
