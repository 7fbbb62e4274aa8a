"""A TCP proxy on loopback that can stop passing bytes: the half-open connections that a lost network leaves behind."""

import asyncio
import contextlib
from typing import Self


class TcpProxy:
    """Passes bytes to a port of 127.0.0.1 and back, from entry to exit."""

    def __init__(self, target_port: int):
        self._target_port = target_port
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for writer in self._writers:
            writer.close()

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    def silence(self) -> None:
        """Stops passing bytes; connections stay open and new ones are accepted."""
        self._passing.clear()

    def silence_open_connections(self) -> None:
        """Stops passing bytes on the existing connections only, until the end."""
        for pump in self._pumps:
            pump.cancel()

    def heal(self) -> None:
        self._passing.set()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.close()
            return
        self._writers.add(back)
        for source, sink in ((reader, back), (there, writer)):
            pump = asyncio.create_task(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                await self._passing.wait()
                sink.write(data)
                await sink.drain()
        sink.close()
