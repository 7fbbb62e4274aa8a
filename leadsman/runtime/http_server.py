"""Connections that end: a listener with the deadlines and the cap that aiohttp's server lacks.

    header   from a request's first byte to the end of its headers        10 s
    write    a client that does not read its answer                       10 s
    idle     between requests; aiohttp's own keep-alive timer            120 s, past kube-scheduler's own 90 s
    TLS      the handshake; its end, once a connection is closed          10 s; 1 s
    cap      open connections; the longest idle one makes room            256

A Guard stands between the transport and aiohttp's protocol. `guard_of` finds it from a request.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

from aiohttp import StreamReader, web
from msgspec import Struct

from leadsman.runtime.mutual_tls import MutualTls


class ServerLimits(Struct, frozen=True):
    header_timeout_seconds: float = 10.0
    write_timeout_seconds: float = 10.0
    idle_timeout_seconds: float = 120.0
    max_connections: int = 256


class ConnectionGuard(asyncio.Protocol):
    """Passes everything on and cuts the connection when a deadline runs out."""

    def __init__(self, inner: asyncio.Protocol, door: "ConnectionLimiter") -> None:
        self._inner: asyncio.Protocol | None = inner
        self._limiter = door
        self._timer: asyncio.TimerHandle | None = None
        self._body: StreamReader | None = None
        self._transport: asyncio.Transport
        self.half_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._inner and self._limiter.admit(self, transport):
            self._inner.connection_made(transport)
        else:
            self._inner = None
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._inner:
            if self._limiter.mark_active(self):
                self._abort_after(self._limiter.limits.header_timeout_seconds)
            self._inner.data_received(data)

    def eof_received(self) -> bool:
        """A client that has sent all and closed its sending half still gets its answer. TLS knows no half-close."""
        self.half_closed = True
        self._abort_truncated_body()
        return not self._limiter.is_idle(self) and self._transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        self._abort_after(self._limiter.limits.write_timeout_seconds)
        if self._inner:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._cancel_timer()
        if self._inner:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._limiter.remove(self)
        if self._inner:
            self._inner.connection_lost(exc)

    def request_started(self, body: StreamReader) -> None:
        self._cancel_timer()
        self._body = body
        self._abort_truncated_body()

    def request_finished(self) -> None:
        self._body = None
        self._limiter.mark_idle(self)

    def abort(self) -> None:
        self._transport.abort()

    def _abort_truncated_body(self) -> None:
        """What has not come before the client closed will not come."""
        if self.half_closed and self._body and not self._body.is_eof():
            self.abort()

    def _abort_after(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class ConnectionLimiter:
    """Counts who is in, and who of them waits for nothing, the longest waiting first."""

    def __init__(
        self, protocol: Callable[[], asyncio.Protocol], limits: ServerLimits, tls: MutualTls | None = None
    ) -> None:
        self._protocol, self._tls = protocol, tls
        self.limits = limits
        self._open: set[ConnectionGuard] = set()
        self._idle: dict[ConnectionGuard, None] = {}

    def __call__(self) -> ConnectionGuard:
        return ConnectionGuard(self._protocol(), self)

    def admit(self, guard: ConnectionGuard, transport: asyncio.BaseTransport) -> bool:
        if self._tls and not self._tls.allows_client(transport.get_extra_info("peercert")):
            return False
        if len(self._open) >= self.limits.max_connections and not self._evict_idle():
            return False
        self._open.add(guard)
        self._idle[guard] = None
        return True

    def is_idle(self, guard: ConnectionGuard) -> bool:
        return guard in self._idle

    def mark_active(self, guard: ConnectionGuard) -> bool:
        """Whether it was idle until now."""
        return self._idle.pop(guard, self) is None

    def mark_idle(self, guard: ConnectionGuard) -> None:
        if guard in self._open:
            self._idle[guard] = None

    def remove(self, guard: ConnectionGuard) -> None:
        self._open.discard(guard)
        self._idle.pop(guard, None)

    def _evict_idle(self) -> bool:
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        self.remove(oldest)
        oldest.abort()
        return True


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
    """The sockets listened on. Each context serves the connections made from then on; open ones keep theirs."""

    def __init__(self, door: ConnectionLimiter) -> None:
        self._limiter = door
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """The port bound. OSError when it is taken."""
        bound = await asyncio.get_running_loop().create_server(self._limiter, host, port, start_serving=False)
        self._sockets = [each.dup() for each in bound.sockets]
        bound.close()
        await self.use_tls_context(tls)
        return int(self._sockets[0].getsockname()[1])

    async def use_tls_context(self, tls: ssl.SSLContext | None) -> None:
        """Nobody who connects in between is refused: the sockets stay open."""
        before, self._servers = self._servers, [await self._server(each.dup(), tls) for each in self._sockets]
        for server in before:
            server.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for each in self._sockets:
            each.close()

    async def _server(self, sock: socket.socket, tls: ssl.SSLContext | None) -> asyncio.Server:
        handshake, shutdown = (
            (self._limiter.limits.header_timeout_seconds, CLOSE_TIMEOUT_SECONDS) if tls else (None, None)
        )
        return await asyncio.get_running_loop().create_server(
            self._limiter, sock=sock, ssl=tls, ssl_handshake_timeout=handshake, ssl_shutdown_timeout=shutdown
        )


CLOSE_TIMEOUT_SECONDS = 1.0

DRAIN_TIMEOUT_SECONDS = 5.0

DEFAULT_LIMITS = ServerLimits()


@asynccontextmanager
async def serve(
    app: web.Application, host: str, port: int, limits: ServerLimits = DEFAULT_LIMITS, tls: MutualTls | None = None
) -> AsyncIterator[int]:
    """Listens until the block ends, then answers what has begun, for DRAIN_TIMEOUT_SECONDS at most. Yields the port."""
    runner = web.AppRunner(
        app,
        access_log=None,
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
        if tls:
            tls.on_reload(listener.use_tls_context)
        port = await listener.open(host, port, tls.current if tls else None)
        try:
            yield port
        finally:
            listener.close()
    finally:
        await runner.cleanup()
