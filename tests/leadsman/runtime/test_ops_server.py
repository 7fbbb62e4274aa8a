import asyncio
from contextlib import AsyncExitStack

import aiohttp
import aiohttp.web
import pytest

from leadsman.runtime import http_server, text_table
from leadsman.runtime.connections import ServerLimits
from leadsman.runtime.http_server import Health, create_ops_app, good_unless, serve
from leadsman.runtime.scrape import create_registry
from leadsman.testbed.etcd import free_ports
from tests.conftest import Until


async def get(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, await response.text()


@pytest.mark.parametrize(
    ("health", "response"),
    [
        (good_unless(""), (200, "ok\n")),
        (good_unless("probes: stalled\npods: stalled"), (503, "probes: stalled\npods: stalled\n")),
        (Health(True, "ok; nothing is loaded yet"), (200, "ok; nothing is loaded yet\n")),
    ],
)
async def test_a_check_that_is_not_good_is_unavailable_and_says_why(health: Health, response: tuple[int, str]) -> None:
    app = create_ops_app(create_registry(), lambda: health, lambda: health)
    async with serve(app, "127.0.0.1", 0) as port:
        assert await get(port, "/healthz") == response
        assert await get(port, "/readyz") == response


async def test_every_address_is_also_one_of_ipv6() -> None:
    """As 0.0.0.0 in the manifests is: a pod may have no other."""
    (port,) = free_ports(1)
    app = create_ops_app(create_registry(), lambda: good_unless(""), lambda: good_unless(""))
    async with serve(app, "0.0.0.0", port):
        for host in ("127.0.0.1", "::1"):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()


async def test_those_who_wait_for_the_end_of_a_start_leave_the_kubelet_its_connection(
    until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than all connections that a server gives to clients that it knows nothing of."""
    monkeypatch.setattr(http_server, "STARTUP_POLL_SECONDS", 1.0)
    most, checks, problems = ServerLimits().max_unproven_connections, list[str](), ["etcd does not answer", ""]

    def unready() -> Health:
        checks.append(problems[0])
        return good_unless(problems[0])

    app = create_ops_app(create_registry(), lambda: Health(True), unready, startup_seconds=1000.0)
    async with serve(app, "127.0.0.1", 0) as port, AsyncExitStack() as stack:
        for _ in range(most + 2):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(b"GET /startupz HTTP/1.1\r\nHost: agent\r\n\r\n")
        await until(lambda: len(checks) >= most)
        for _ in range(12):
            assert await get(port, "/healthz") == (200, "ok\n")
        problems.pop(0)


async def test_a_response_may_take_longer_than_the_headers_of_a_request() -> None:
    """The connection's guard is told that the request has begun, or it would cut the connection."""
    app = create_ops_app(create_registry(), lambda: Health(True), lambda: Health(True))
    limits = ServerLimits(header_timeout_seconds=0.05)

    async def slow(_: aiohttp.web.Request) -> aiohttp.web.Response:
        await asyncio.sleep(4 * limits.header_timeout_seconds)
        return aiohttp.web.Response(text="late")

    app.router.add_get("/slow", slow)
    async with serve(app, "127.0.0.1", 0, limits) as port:
        assert await get(port, "/slow") == (200, "late")


# Plain text in columns.


def test_a_reason_that_is_too_long_goes_on_below_its_row() -> None:
    rows = [["NODE", "REASON"], ["a", "near (by b's agent)"], ["edge-1", "delay to edge-1 over 25 ms"]]
    head, below = "NODE    REASON", ["edge-1", "    delay to edge-1", "    over 25 ms"]
    assert text_table.align_with_reason(rows, brief=True, width=20) == [head, "a       near", *below]
    whole = ["a", "    near (by b's", "    agent)"]
    assert text_table.align_with_reason(rows, brief=False, width=20) == [head, *whole, *below]


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0"), (12.125, "12.12"), (0.0543, "0.0543"), (999.96, "1000"), (59_999.6, "60000")]
)
def test_a_number_has_four_digits_and_no_exponent(value: float, said: str) -> None:
    assert text_table.format_number(value) == said
