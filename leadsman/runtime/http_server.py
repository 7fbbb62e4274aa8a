"""An HTTP server for aiohttp applications; its connections have deadlines and caps (`leadsman.runtime.connections`)."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from leadsman.runtime.connections import CLOSE_TIMEOUT_SECONDS, ConnectionGuard, ConnectionLimiter, ServerLimits
from leadsman.runtime.log_limit import LogLimit

if TYPE_CHECKING:
    from leadsman.runtime.server_tls import ListenerTls  # an agent, which has no TLS port, never imports it

DRAIN_TIMEOUT_SECONDS = 5.0

DEFAULT_LIMITS = ServerLimits()

LISTEN_BACKLOG = 1024
"""A flood that fills the backlog makes a new client wait for its second SYN, which is a second later."""

ACCEPTS_AT_ONCE = 16
"""So that a flood of connections leaves the event loop time for requests."""

ACCEPT_RETRY_SECONDS = 1.0


def connection_guard(request: web.BaseRequest) -> ConnectionGuard | None:
    """None when the connection is lost, or was accepted by another listener than `serve`'s."""
    protocol = request.transport.get_protocol() if request.transport else None
    return protocol if isinstance(protocol, ConnectionGuard) else None


@web.middleware
async def track_request(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Tells the guard of the request's connection when it begins and ends. An application that is served by `serve`
    needs this as its outermost middleware, or the header deadline cuts its connections."""
    guard = connection_guard(request)
    if guard is None:
        return await handler(request)
    guard.request_started(request.content)
    try:
        response = await handler(request)
    finally:
        guard.request_finished()
    if guard.half_closed:
        response.force_close()
    return response


class Listener:
    """Listens on sockets and accepts what connects."""

    def __init__(self, limiter: ConnectionLimiter) -> None:
        self._limiter = limiter
        self._sockets: list[socket.socket] = []

    async def open(self, host: str, port: int) -> int:
        """Returns the port bound. Raises OSError when it is taken."""
        bound = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
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
    app: web.Application, host: str, port: int, limits: ServerLimits = DEFAULT_LIMITS, tls: "ListenerTls | None" = None
) -> AsyncIterator[int]:
    """Listens until the block ends, then answers what has begun, for DRAIN_TIMEOUT_SECONDS at most. Yields the port."""
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
