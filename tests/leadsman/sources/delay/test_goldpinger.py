"""A Goldpinger on a real socket that answers as told, on a clock of the tests' own."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from leadsman.decision.inputs import SourceRow
from leadsman.sources.delay import goldpinger
from leadsman.sources.delay.goldpinger import GoldpingerPoller

NAMES = {f"10.0.0.{node}": f"edge-{node}" for node in range(10)}


def body(stamp: str = "") -> str:
    """edge-1 measured edge-2; edge-2 measured edge-1 at 7 ms and nobody else."""
    timed: dict[str, Any] = {"OK": True, "response-time-ms": 12} | ({"PingTime": stamp} if stamp else {})
    return json.dumps(
        {
            "responses": {
                "gp-1": checked(1, {"gp-2": {"HostIP": "10.0.0.2"} | timed}),
                "gp-2": checked(2, {"gp-1": {"HostIP": "10.0.0.1", "OK": True, "response-time-ms": 7}}),
            }
        }
    )


def checked(node: int, peers: object) -> dict[str, Any]:
    return {"OK": True, "HostIP": f"10.0.0.{node}", "response": {"podResults": peers}}


class Pinger:
    """text: what /check_all answers; status: with which status."""

    def __init__(self) -> None:
        self.text, self.status, self.now = body(), 200, 100.0

    async def check_all(self, _: web.Request) -> web.Response:
        return web.Response(text=self.text, status=self.status)


@pytest.fixture
def pinger() -> Pinger:
    return Pinger()


@pytest.fixture
async def url(pinger: Pinger) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/check_all", pinger.check_all)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def polled(source: GoldpingerPoller, times: int = 1, seconds: float = 0.5) -> GoldpingerPoller:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session:
        for _ in range(times):
            await source.poll(session)
    return source


@pytest.fixture
def source(url: str, pinger: Pinger) -> GoldpingerPoller:
    return GoldpingerPoller(url, lambda: NAMES, 10.0, clock=lambda: pinger.now)


async def test_each_direction_is_what_its_end_measured(source: GoldpingerPoller) -> None:
    view = (await polled(source)).current
    assert view
    assert view.row("edge-1") == SourceRow({"edge-2": 13.0}, {"edge-2": 8.0}, frozenset())
    assert view.row("edge-2") == SourceRow({"edge-1": 8.0}, {"edge-1": 13.0}, frozenset())
    assert view.row("edge-3") == SourceRow()
    assert (view.source, view.nodes) == ("goldpinger", {"edge-1", "edge-2"})


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (500, "", "returned status 500"),
        (200, "<html>", "not a response to GET /check_all ($: JSON is malformed"),
        (200, "{}", "no `responses`"),
    ],
)
async def test_a_failed_poll_is_told_and_leaves_the_view_to_age(
    source: GoldpingerPoller, pinger: Pinger, status: int, text: str, said: str
) -> None:
    before = (await polled(source)).current
    pinger.status, pinger.text, pinger.now = status, text, 110.0
    await polled(source)
    assert said in source.problem.text
    assert source.current is before


async def test_an_answer_too_large_is_given_up(source: GoldpingerPoller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goldpinger, "MAX_RESPONSE_BYTES", 100)
    assert "has more than 100 bytes" in (await polled(source)).problem.text


async def test_a_reporter_whose_pings_stand_still_counts_no_more(source: GoldpingerPoller, pinger: Pinger) -> None:
    """It repeats what it measured long ago; the other is asked again each time."""
    pinger.text = body(stamp="2026-01-01T00:00:00.000Z")
    await polled(source)
    pinger.now = 130.0
    await polled(source)
    assert source.current
    assert source.current.reports.keys() == {"edge-2"}
    pinger.text = body(stamp="2026-01-01T00:00:31.000Z")
    await polled(source)
    assert source.current.reports.keys() == {"edge-1", "edge-2"}
