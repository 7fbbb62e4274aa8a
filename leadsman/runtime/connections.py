"""Ends connections by the deadlines and caps that aiohttp's server lacks.

    handshake  from accept to the end of the TLS handshake                10 s
    header     from a request's first byte to the end of its headers      10 s
    body       from the end of the headers to the end of the body         20 s, past the extender's own, which says 408
    write      a client that does not read its answer                     10 s
    idle       between requests; aiohttp's own keep-alive timer          120 s, past kube-scheduler's own 90 s
    unproven   connections counted from accept; see below                128
    proven     connections of clients that have shown to be ours         256

A connection is unproven until its client has shown an allowed certificate or, without TLS, was answered a request. The
two have room of their own, so strangers cannot cut a client that has proven itself. Where the room for unproven ones
ends, one makes way: the oldest of the address that has most of them, silent ones and those that have sent something
counted apart. Where the room for proven ones ends, the longest idle one makes way. Nobody is cut within a request.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from aiohttp import StreamReader, web
from msgspec import Struct

from leadsman.runtime.log_limit import LogLimit

if TYPE_CHECKING:
    from leadsman.runtime.server_tls import ServerTls  # an agent, which has no TLS port, never imports it

_log = logging.getLogger(__name__)
_log.addFilter(LogLimit())

CLOSE_TIMEOUT_SECONDS = 1.0


class ServerLimits(Struct, frozen=True):
    """Limits a server's connections. header_timeout_seconds: of the TLS handshake too. max_unproven_connections: a TLS
    handshake takes 256 KiB."""

    header_timeout_seconds: float = 10.0
    body_timeout_seconds: float = 20.0
    write_timeout_seconds: float = 10.0
    idle_timeout_seconds: float = 120.0
    max_unproven_connections: int = 128
    max_proven_connections: int = 256


class ConnectionGuard(asyncio.Protocol):
    """Stands between the transport and aiohttp's protocol: passes everything on, and cuts the connection when a
    deadline runs out. address: of the client."""

    def __init__(self, limiter: "ConnectionLimiter", address: str) -> None:
        self.address = address
        self.is_silent = True
        self.half_closed = self.in_request = False
        self._in_headers = self._aborted = False
        self._limiter = limiter
        self._opening: asyncio.Task[None] | None = None
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._header_deadline: asyncio.TimerHandle | None = None
        self._body_deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._body: StreamReader | None = None

    def open(self, sock: socket.socket) -> None:
        """Begins the TLS handshake, or without TLS the first request."""
        opening = asyncio.get_running_loop().create_task(self._open(sock), name=f"open {self.address}")
        opening.add_done_callback(lambda _: self._opened(sock))
        self._opening = opening

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._aborted or not self._limiter.admit(self, transport):
            self.abort()
        else:
            self._inner = self._limiter.create_protocol()
            self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.is_silent = False
        if self._inner:
            if self.is_idle:
                self._in_headers = True
                self._limiter.mark_busy(self)
                self._header_deadline = self._abort_after(self._limiter.limits.header_timeout_seconds)
            self._inner.data_received(data)

    def eof_received(self) -> bool:
        """Lets a client that sent all and closed its half still get its answer. TLS knows no half-close."""
        self.half_closed = True
        self._abort_truncated_body()
        return not self.is_idle and self._transport is not None and not self._transport.get_extra_info("sslcontext")

    def pause_writing(self) -> None:
        self._write_deadline = self._abort_after(self._limiter.limits.write_timeout_seconds)
        if self._inner:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        _cancel(self._write_deadline)
        if self._inner:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        for deadline in (self._header_deadline, self._body_deadline, self._write_deadline):
            _cancel(deadline)
        self._limiter.remove(self)
        if self._inner:
            self._inner.connection_lost(exc)

    def request_started(self, body: StreamReader) -> None:
        _cancel(self._header_deadline)
        self._in_headers, self.in_request = False, True
        self._limiter.mark_busy(self)
        self._body = body
        self._body_deadline = self._abort_after(self._limiter.limits.body_timeout_seconds)
        body.on_eof(self._body_deadline.cancel)
        self._abort_truncated_body()

    def request_finished(self) -> None:
        self._body = None
        self.in_request = False
        self._limiter.mark_idle(self)

    def abort(self) -> None:
        self._aborted = True
        if self._transport:
            self._transport.abort()
        elif self._opening:
            self._opening.cancel()

    @property
    def is_idle(self) -> bool:
        """Tells whether no part of an unanswered request has come."""
        return not (self._in_headers or self.in_request)

    async def _open(self, sock: socket.socket) -> None:
        tls = self._limiter.tls
        try:
            async with asyncio.timeout(self._limiter.limits.header_timeout_seconds):
                if tls:
                    await _until_readable(sock)
                    self.is_silent = False
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: self,
                    sock,
                    ssl=tls.current if tls else None,
                    ssl_shutdown_timeout=CLOSE_TIMEOUT_SECONDS if tls else None,
                )
        except OSError as error:  # TLS errors and the timeout are among them.
            # Its frames refer to it and to the handshake's 256 KiB, which would stay until the next garbage collection.
            error.__traceback__ = None

    def _opened(self, sock: socket.socket) -> None:
        """Without a transport nobody else closes the socket, and connection_lost is not called."""
        self._opening = None
        if self._transport is None:
            sock.close()
            self._limiter.remove(self)

    def _abort_truncated_body(self) -> None:
        """Aborts a body that is not whole when the client closes: the rest will not come."""
        if self.half_closed and self._body and not self._body.is_eof():
            self.abort()

    def _abort_after(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self.abort)


def _cancel(deadline: asyncio.TimerHandle | None) -> None:
    if deadline:
        deadline.cancel()


async def _until_readable(sock: socket.socket) -> None:
    """A handshake takes 256 KiB from its start; a client that stays silent is not worth them."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(sock)


@web.middleware
async def track_request(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Tells the connection's guard when a request begins and ends, or the header deadline would cut it."""
    guard = request.transport.get_protocol() if request.transport else None
    if not isinstance(guard, ConnectionGuard):  # The connection is lost.
        return await handler(request)
    guard.request_started(request.content)
    try:
        response = await handler(request)
    finally:
        guard.request_finished()
    if guard.half_closed:
        response.force_close()
    return response


class ConnectionLimiter:
    """Counts connections from accept on, and closes one when there is no room for another.

    create_protocol: aiohttp's protocol of one connection. tls: None: plain HTTP.
    """

    def __init__(
        self, create_protocol: Callable[[], asyncio.Protocol], limits: ServerLimits, tls: "ServerTls | None" = None
    ) -> None:
        self.create_protocol, self.limits, self.tls = create_protocol, limits, tls
        self._unproven: dict[ConnectionGuard, None] = {}
        self._proven: set[ConnectionGuard] = set()
        self._proven_idle: dict[ConnectionGuard, None] = {}

    def accept(self, sock: socket.socket, address: str) -> None:
        if len(self._unproven) >= self.limits.max_unproven_connections and not self._evict_unproven():
            _log.warning("refused a connection from %s: no more may be open without a proven client", address)
            sock.close()
            return
        guard = ConnectionGuard(self, address)
        self._unproven[guard] = None
        guard.open(sock)

    def admit(self, guard: ConnectionGuard, transport: asyncio.BaseTransport) -> bool:
        """Tells whether a connection's client may send requests. Behind TLS its certificate has proven who it is."""
        if self.tls is None:
            return True
        if not self.tls.allows_client(transport.get_extra_info("peercert")):
            return False
        self.mark_idle(guard)
        return True

    def mark_busy(self, guard: ConnectionGuard) -> None:
        self._proven_idle.pop(guard, None)

    def mark_idle(self, guard: ConnectionGuard) -> None:
        """Marks a connection whose client has proven itself and waits for nothing."""
        self._prove(guard)
        if guard in self._proven:
            self._proven_idle[guard] = None

    def remove(self, guard: ConnectionGuard) -> None:
        self._unproven.pop(guard, None)
        self._proven_idle.pop(guard, None)
        self._proven.discard(guard)

    def close(self) -> None:
        """Ends connections that wait for their first request; the others are aiohttp's to drain."""
        for guard in [each for each in self._unproven if each.is_idle]:
            guard.abort()

    def _prove(self, guard: ConnectionGuard) -> None:
        """Counts a connection as proven; where there is no room it stays unproven, and is served all the same."""
        if guard not in self._unproven:
            return
        if len(self._proven) >= self.limits.max_proven_connections:
            if not self._proven_idle:
                return
            self._evict(next(iter(self._proven_idle)))
        del self._unproven[guard]
        self._proven.add(guard)

    def _evict_unproven(self) -> bool:
        """Evicts one, and tells whether there was one. A flood evicts its own: the oldest of the address and phase that
        has most."""
        groups = {each: (each.address, each.is_silent) for each in self._unproven if not each.in_request}
        if not groups:
            return False
        busiest = Counter(groups.values()).most_common(1)[0][0]
        _log.warning(
            "closed a connection from %s that has not proven itself: %d such connections are open, the most allowed",
            busiest[0],
            len(self._unproven),
        )
        self._evict(next(each for each, group in groups.items() if group == busiest))
        return True

    def _evict(self, guard: ConnectionGuard) -> None:
        self.remove(guard)
        guard.abort()
