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
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from aiohttp import StreamReader, web
from msgspec import Struct

from extender.tls import Tls


class Limits(Struct, frozen=True):
    header_seconds: float = 10.0
    write_seconds: float = 10.0
    idle_seconds: float = 120.0
    connections: int = 256


class Guard(asyncio.Protocol):
    """Passes everything on and cuts the connection when a deadline runs out."""

    def __init__(self, inner: asyncio.Protocol, door: "Door") -> None:
        self._inner: asyncio.Protocol | None = inner
        self._door = door
        self._timer: asyncio.TimerHandle | None = None
        self._body: StreamReader | None = None
        self._transport: asyncio.Transport
        self.half_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._inner and self._door.admits(self, transport):
            self._inner.connection_made(transport)
        else:
            self._inner = None
            self.cut()

    def data_received(self, data: bytes) -> None:
        if self._inner:
            if self._door.rouse(self):
                self._cut_after(self._door.limits.header_seconds)
            self._inner.data_received(data)

    def eof_received(self) -> bool:
        """A client that has sent all and closed its sending half still gets its answer. TLS knows no half-close."""
        self.half_closed = True
        self._end_body()
        return not self._door.idles(self) and self._transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        self._cut_after(self._door.limits.write_seconds)
        if self._inner:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._calm()
        if self._inner:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        self._door.leave(self)
        if self._inner:
            self._inner.connection_lost(exc)

    def headers_read(self, body: StreamReader) -> None:
        self._calm()
        self._body = body
        self._end_body()

    def answered(self) -> None:
        self._body = None
        self._door.rest(self)

    def cut(self) -> None:
        self._transport.abort()

    def _end_body(self) -> None:
        """What has not come before the client closed will not come."""
        if self.half_closed and self._body and not self._body.is_eof():
            self.cut()

    def _cut_after(self, seconds: float) -> None:
        self._calm()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.cut)

    def _calm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class Door:
    """Counts who is in, and who of them waits for nothing, the longest waiting first."""

    def __init__(self, protocol: Callable[[], asyncio.Protocol], limits: Limits, tls: Tls | None = None) -> None:
        self._protocol, self._tls = protocol, tls
        self.limits = limits
        self._inside: set[Guard] = set()
        self._idle: dict[Guard, None] = {}

    def __call__(self) -> Guard:
        return Guard(self._protocol(), self)

    def admits(self, guard: Guard, transport: asyncio.BaseTransport) -> bool:
        if self._tls and not self._tls.welcomes(transport.get_extra_info("peercert")):
            return False
        if len(self._inside) >= self.limits.connections and not self._made_room():
            return False
        self._inside.add(guard)
        self._idle[guard] = None
        return True

    def idles(self, guard: Guard) -> bool:
        return guard in self._idle

    def rouse(self, guard: Guard) -> bool:
        """Whether it was idle until now."""
        return self._idle.pop(guard, self) is None

    def rest(self, guard: Guard) -> None:
        if guard in self._inside:
            self._idle[guard] = None

    def leave(self, guard: Guard) -> None:
        self._inside.discard(guard)
        self._idle.pop(guard, None)

    def _made_room(self) -> bool:
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        self.leave(oldest)
        oldest.cut()
        return True


def guard_of(request: web.BaseRequest) -> Guard | None:
    """None when the connection is lost, or was accepted by another listener than `serve`'s."""
    protocol = request.transport.get_protocol() if request.transport else None
    return protocol if isinstance(protocol, Guard) else None


class Listener:
    """The sockets listened on. Each context serves the connections made from then on; open ones keep theirs."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """The port bound. OSError when it is taken."""
        bound = await asyncio.get_running_loop().create_server(self._door, host, port, start_serving=False)
        self._sockets = [each.dup() for each in bound.sockets]
        bound.close()
        await self.use(tls)
        return int(self._sockets[0].getsockname()[1])

    async def use(self, tls: ssl.SSLContext | None) -> None:
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
        handshake, shutdown = (self._door.limits.header_seconds, LINGER_SECONDS) if tls else (None, None)
        return await asyncio.get_running_loop().create_server(
            self._door, sock=sock, ssl=tls, ssl_handshake_timeout=handshake, ssl_shutdown_timeout=shutdown
        )


LINGER_SECONDS = 1.0

DRAIN_SECONDS = 5.0

DEFAULT_LIMITS = Limits()


@asynccontextmanager
async def serve(
    app: web.Application, host: str, port: int, limits: Limits = DEFAULT_LIMITS, tls: Tls | None = None
) -> AsyncIterator[int]:
    """Listens until the block ends, then answers what has begun for DRAIN_SECONDS at most. Yields the port bound."""
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        auto_decompress=False,
        keepalive_timeout=limits.idle_seconds,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=DRAIN_SECONDS,
    )
    await runner.setup()
    assert runner.server
    try:
        listener = Listener(Door(runner.server, limits, tls))
        if tls:
            tls.tell(listener.use)
        port = await listener.open(host, port, tls.current if tls else None)
        try:
            yield port
        finally:
            listener.close()
    finally:
        await runner.cleanup()
