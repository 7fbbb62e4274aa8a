import asyncio
from collections.abc import AsyncIterator

import pytest

from leadsman.testbed.tcp_proxy import TcpProxy


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        server.close()


class Caller:
    def __init__(self, proxy: TcpProxy):
        self._port = proxy.port

    async def __aenter__(self) -> "Caller":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, within_seconds: float = 5.0) -> bytes:
        self._writer.write(b"ping")
        return await self.read(within_seconds)

    async def read(self, within_seconds: float = 5.0) -> bytes:
        async with asyncio.timeout(within_seconds):
            return await self._reader.read(100)


async def test_bytes_pass_both_ways(echo: int) -> None:
    async with TcpProxy(echo) as proxy, Caller(proxy) as caller:
        assert await caller.ask() == b"ping"
        assert proxy.accepted == 1


async def test_silent_it_still_takes_connections_and_healed_it_passes_what_was_held(echo: int) -> None:
    async with TcpProxy(echo) as proxy:
        proxy.silence()
        async with Caller(proxy) as caller:
            with pytest.raises(TimeoutError):
                await caller.ask(0.05)
            proxy.heal()
            assert await caller.ask() == b"pingping"


async def test_those_open_can_fall_silent_alone(echo: int) -> None:
    async with TcpProxy(echo) as proxy, Caller(proxy) as old:
        assert await old.ask() == b"ping"
        proxy.silence_open_connections()
        with pytest.raises(TimeoutError):
            await old.ask(0.05)
        async with Caller(proxy) as new:
            assert await new.ask() == b"ping"


async def test_when_it_ends_the_connections_end(echo: int) -> None:
    async with TcpProxy(echo) as proxy, Caller(proxy) as caller:
        await caller.ask()
        await proxy.__aexit__()
        assert await caller.read() == b""
