"""Asking every process behind a name, on real sockets; the name is looked up in a table."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from extender.peers.client import ASK_SECONDS, LOOKUP_VALID_SECONDS, PeerAnswers, PeerClient, SilentPeer, is_own_address
from leadsman.runtime.http_server import serve, track_request
from leadsman.runtime.process_name import PROCESS_NAME
from leadsman.testbed.etcd import free_ports


@asynccontextmanager
async def running(address: str, port: int, name: str) -> AsyncIterator[None]:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"asked": request.path_qs}, headers={PROCESS_NAME: name})

    app = web.Application(middlewares=[track_request])
    app.router.add_get("/{path}", answer)
    async with serve(app, address, port):
        yield


class Names:
    """A table of names, and a clock."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table, self.now, self.looked_up = dict(table), 0.0, 0

    def __call__(self, host: str, _: int) -> Any:
        self.looked_up += 1
        if host not in self.table:
            raise OSError("Name or service not known")
        return self.table[host]


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


async def asked(client: PeerClient) -> PeerAnswers:
    """Once nobody is too slow for the deadline, as anybody may be on a busy machine."""
    while True:
        said = await client.ask("/state", {"a": "b"})
        if not any("no answer within" in each.error for each in said.silent):
            return said


async def test_all_behind_the_name_answer_and_who_is_away_is_silent(port: int) -> None:
    names = Names({"replicas": ["127.0.4.1", "127.0.4.2", "127.0.4.3"]})
    async with (
        running("127.0.4.1", port, "one"),
        running("127.0.4.2", port, "two"),
        PeerClient([("replicas", port)], lookup=names) as client,
    ):
        said = await asked(client)
    assert {(each.name, each.body) for each in said.answers} == {
        ("one", b'{"asked": "/state?a=b"}'),
        ("two", b'{"asked": "/state?a=b"}'),
    }
    (silent,) = said.silent
    assert silent.name == "127.0.4.3"
    assert "Connect call failed" in silent.error


class Trickles(asyncio.Protocol):
    """Answers a byte at a time, without an end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        self._write(transport)

    def _write(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():
            transport.write(b" ")
            asyncio.get_running_loop().call_later(0.01, self._write, transport)


@pytest.mark.parametrize("protocol", [asyncio.Protocol, Trickles], ids=["never answers", "trickles"])
async def test_who_is_late_is_named_and_the_others_answers_are_there(
    port: int, protocol: type[asyncio.Protocol]
) -> None:
    names = Names({"replicas": ["127.0.4.1", "127.0.4.2", "127.0.4.3"]})
    late = SilentPeer("127.0.4.2", f"no answer within {1000 * ASK_SECONDS:g} ms")
    async with (
        running("127.0.4.1", port, "one"),
        await asyncio.get_running_loop().create_server(protocol, "127.0.4.2", port),
        PeerClient([("replicas", port)], lookup=names) as client,
    ):
        said = await client.ask("/state", {"a": "b"})
        while not said.answers:  # On a busy machine it may be late, too.
            said = await client.ask("/state", {"a": "b"})
    assert [each.name for each in said.answers] == ["one"]
    assert late in said.silent
    assert {each.name for each in said.silent} == {"127.0.4.2", "127.0.4.3"}


async def test_a_look_up_that_does_not_end_is_late(port: int) -> None:
    ends = threading.Event()

    def never(*_: object) -> Sequence[str]:
        ends.wait()
        return []

    async with PeerClient([("replicas", port)], lookup=never) as client:
        said = await client.ask("/state", {})
    ends.set()
    assert said.silent == [
        SilentPeer("replicas", f"the name cannot be looked up: no answer within {1000 * ASK_SECONDS:g} ms")
    ]


async def test_one_that_goes_away_is_called_by_the_name_that_it_gave(port: int) -> None:
    async with PeerClient([("replicas", port)], lookup=Names({"replicas": ["127.0.4.1"]})) as client:
        async with running("127.0.4.1", port, "extender-1"):
            assert (await asked(client)).answers[0].name == "extender-1"
        assert [each.name for each in (await asked(client)).silent] == ["extender-1"]


async def test_a_name_that_cannot_be_looked_up_is_silent_itself(port: int) -> None:
    async with PeerClient([("replicas", port)], lookup=Names({})) as client:
        said = await asked(client)
    assert said.silent == [SilentPeer("replicas", "the name cannot be looked up: Name or service not known")]


async def test_the_process_itself_is_not_asked(port: int) -> None:
    names = Names({"replicas": ["127.0.0.1"]})
    async with PeerClient([("replicas", port)], lookup=names) as client:
        client.own_port = port
        assert await asked(client) == PeerAnswers([], [])


async def test_another_port_of_this_machine_is_another_process(port: int) -> None:
    async with PeerClient([("replicas", port)], lookup=Names({"replicas": ["127.0.0.1"]})) as client:
        client.own_port = port + 1
        assert [each.name for each in (await asked(client)).silent] == ["127.0.0.1"]


async def test_addresses_are_looked_up_again_when_they_may_have_changed(port: int) -> None:
    names = Names({"replicas": []})
    async with PeerClient([("replicas", port)], lookup=names, clock=lambda: names.now) as client:
        for now, looked_up in ((0.0, 1), (LOOKUP_VALID_SECONDS, 1), (LOOKUP_VALID_SECONDS + 0.1, 2)):
            names.now = now
            await asked(client)
            assert names.looked_up == looked_up


@pytest.mark.parametrize(("address", "is_own"), [("127.0.0.1", True), ("192.0.2.1", False)])
def test_own_addresses_are_known(address: str, is_own: bool) -> None:
    assert is_own_address(address) is is_own
