"""Raw sockets: what a client of bad will, or with a bad line, can do to the listener."""

import asyncio
import contextlib
import socket

import pytest
from aiohttp import web

from extender.body_limits import BodyLimits, BodyReader
from leadsman.runtime.connections import ServerLimits
from leadsman.runtime.http_server import serve
from leadsman.runtime.log_limit import LINES_BURST
from tests.extender.conftest import CAPTURES, HEAD, answer, args, captured, connected, request, starts
from tests.testbed.background import running
from tests.waiting import until

QUICK = ServerLimits(header_timeout_seconds=0.1, write_timeout_seconds=0.2, idle_timeout_seconds=0.3)


async def ended(reader):
    """What still comes before the connection ends."""
    with contextlib.suppress(ConnectionResetError):
        return await asyncio.wait_for(reader.read(), 60)
    return b""


async def test_kube_schedulers_own_request_is_answered_again_and_again_on_one_connection() -> None:
    head = (CAPTURES / "filter.head").read_bytes()
    async with starts() as extender, connected(extender.port) as (reader, writer):
        for _ in range(3):
            writer.write(head + captured("names-3-filter"))
            assert (await answer(reader))[0] == 200


async def test_dripping_does_not_prolong_the_header_deadline() -> None:
    async with (
        starts(limits=ServerLimits(header_timeout_seconds=0.1)) as extender,
        connected(extender.port) as (reader, writer),
    ):

        async def drip():
            while True:
                writer.write(b"X: y\r\n")
                await asyncio.sleep(0.02)

        writer.write(HEAD)
        async with running(drip()):
            assert await ended(reader) == b""


async def test_a_body_that_drips_gets_408() -> None:
    bodies = BodyReader(BodyLimits(read_timeout_seconds=0.1))
    async with starts(bodies=bodies) as extender, connected(extender.port) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 100\r\n\r\n{")
        assert await answer(reader) == (408, b"request body did not arrive within 0.1 s\n")


async def test_a_body_that_nobody_times_has_a_deadline_of_its_connection() -> None:
    """The page and etcd's gateway read bodies without one of their own, and who is in a request is never cut to make
    room."""
    limits = ServerLimits(body_timeout_seconds=0.1)
    async with starts(limits=limits) as extender, connected(extender.port) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 100\r\n\r\n{")
        assert await ended(reader) == b""


async def test_an_idle_connection_is_closed() -> None:
    async with starts(limits=QUICK) as extender, connected(extender.port) as (reader, _):
        assert await ended(reader) == b""


async def test_a_chunked_body_is_capped_while_it_comes() -> None:
    async with (
        starts(bodies=BodyReader(BodyLimits(max_body_bytes=100))) as extender,
        connected(extender.port) as (reader, writer),
    ):
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"40\r\n" + b" " * 64 + b"\r\n40\r\n" + b" " * 64)
        status, text = await answer(reader)
        assert (status, text[:51]) == (413, b"request body is larger than the limit of 100 bytes;")


async def test_a_length_over_the_cap_is_refused_before_the_body_comes() -> None:
    async with starts() as extender, connected(extender.port) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 999999999999\r\n\r\n")
        assert (await answer(reader))[0] == 413


async def test_all_bodies_together_are_capped() -> None:
    bodies = BodyReader(BodyLimits(max_held_bytes=1000))
    async with starts(bodies=bodies) as extender, connected(extender.port) as (_, slow):
        slow.write(HEAD + b"Content-Length: 2000\r\n\r\n" + b" " * 950)
        await until(lambda: bodies.held_bytes == 950)
        assert (await extender.post("/filter", args(["a"])))[0] == 429


async def test_a_connection_closed_within_a_body_ends_at_once() -> None:
    bodies = BodyReader()
    async with starts(bodies=bodies) as extender, connected(extender.port) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 100\r\n\r\n{")
        await until(lambda: bodies.held_bytes == 1)
        writer.write_eof()
        assert await ended(reader) == b""
        await until(lambda: bodies.held_bytes == 0)


async def is_cut(port, body, reads_bytes=0):
    """Whether a client that reads so many bytes now and then, or none, is cut before it has the whole answer. The
    answer of 9 MB fits no socket buffer, and a write to a connection that was cut fails."""
    loop, sock = asyncio.get_running_loop(), socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    sock.setblocking(False)
    with contextlib.closing(sock):
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, request(body))
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                while True:
                    await asyncio.sleep(0.02)
                    if not reads_bytes:
                        sock.send(b"x")
                    elif not await loop.sock_recv(sock, reads_bytes):
                        break
    return True


async def test_a_client_that_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.handlers.SEND_TIMEOUT_SECONDS", 600)
    async with starts(limits=ServerLimits(write_timeout_seconds=0.2)) as extender:
        assert await is_cut(extender.port, captured("nodes-1000-filter"))


async def test_a_client_that_reads_too_slowly_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write deadline restarts whenever something is read."""
    monkeypatch.setattr("extender.handlers.SEND_TIMEOUT_SECONDS", 0.2)
    async with starts() as extender:
        assert await is_cut(extender.port, captured("nodes-1000-filter"), reads_bytes=64 << 10)


async def test_an_answer_read_late_does_not_lift_the_deadline_of_the_next_headers() -> None:
    async def large(_: web.Request) -> web.Response:
        return web.Response(body=bytes(16 << 20))  # It fits no socket buffer.

    app = web.Application()
    app.router.add_get("/", large)
    limits = ServerLimits(header_timeout_seconds=1.0)  # The answer is read before, also on a busy machine.
    async with serve(app, "127.0.0.1", 0, limits) as port, connected(port) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        await ended(reader)


async def asks(streams, body) -> int:
    streams[1].write(request(body))
    return (await answer(streams[0]))[0]


async def test_past_the_cap_the_longest_idle_connection_makes_room() -> None:
    async with (
        starts(limits=ServerLimits(max_proven_connections=2)) as extender,
        connected(extender.port) as oldest,
        connected(extender.port) as second,
    ):
        for streams in (oldest, second):
            assert await asks(streams, args(["a"])) == 200
        async with connected(extender.port) as third:
            assert await asks(third, args(["a"])) == 200
            assert await ended(oldest[0]) == b""
            assert await asks(second, args(["a"])) == 200


async def test_past_the_cap_nobody_in_a_request_is_cut() -> None:
    bodies, limits = BodyReader(), ServerLimits(max_unproven_connections=1)
    async with starts(bodies=bodies, limits=limits) as extender, connected(extender.port) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 2\r\n\r\n{")
        await until(lambda: bodies.held_bytes == 1)
        async with connected(extender.port) as (refused, _):
            assert await ended(refused) == b""
        writer.write(b"}")
        assert (await answer(reader))[0] == 400


async def test_strangers_evict_one_another_and_never_a_client_that_was_answered() -> None:
    limits = ServerLimits(max_unproven_connections=2, max_proven_connections=1)
    async with starts(limits=limits) as extender, connected(extender.port) as proven:
        assert await asks(proven, args(["a"])) == 200
        async with contextlib.AsyncExitStack() as stack:
            strangers = [await stack.enter_async_context(connected(extender.port)) for _ in range(6)]
            for _, writer in strangers:
                writer.write(HEAD)
            for reader, _ in strangers[:4]:
                assert await ended(reader) == b""
            assert await asks(proven, args(["a"])) == 200


async def test_a_flood_from_one_address_leaves_a_new_client_of_another_its_room() -> None:
    async with (
        starts(limits=ServerLimits(max_unproven_connections=4)) as extender,
        connected(extender.port, local_addr=("127.0.0.2", 0)) as new,
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(20):
            await stack.enter_async_context(connected(extender.port, local_addr=("127.0.0.3", 0)))
        assert await asks(new, args(["a"])) == 200


async def test_malformed_requests_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with starts() as extender:
        for _ in range(50):
            async with connected(extender.port) as (reader, writer):
                writer.write(b"GET / HTTP/1.1\r\nno colon\r\n\r\n")
                await ended(reader)
    assert 1 <= len(caplog.records) <= LINES_BURST + 1
