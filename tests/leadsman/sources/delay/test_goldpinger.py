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
from leadsman.sources.delay.goldpinger import BadCheckAll, GoldpingerPoller, GoldpingerReport, parse_check_all

NAMES = {f"10.0.0.{node}": f"edge-{node}" for node in range(10)}


def peer(host: int, ms: object = None, ok: bool = True, **more: object) -> dict[str, Any]:
    """As Go writes it: 0 ms is left out."""
    timed = {} if ms is None else {"response-time-ms": ms}
    return {"OK": ok, "HostIP": f"10.0.0.{host}", "PodIP": f"10.1.0.{host}", "status-code": 200} | timed | more


def reporter(host: int, peers: object) -> dict[str, Any]:
    return {"OK": True, "HostIP": f"10.0.0.{host}", "PodIP": f"10.1.0.{host}", "response": {"podResults": peers}}


def body(**stamp: Any) -> str:
    """edge-1 measured edge-2; edge-2 measured edge-1 at 7 ms and nobody else."""
    responses = {"gp-1": reporter(1, {"gp-2": peer(2, 12, **stamp)}), "gp-2": reporter(2, {"gp-1": peer(1, 7)})}
    return json.dumps({"responses": responses})


class Pinger:
    """text: what /check_all answers; status: with which status."""

    def __init__(self) -> None:
        self.text, self.status, self.now = body(), 200, 100.0

    async def check_all(self, _: web.Request) -> web.Response:
        return web.Response(text=self.text, status=self.status, headers={"Location": self.text})


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
        (302, "http://a..b/", "idna"),
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
    pinger.text = body(PingTime="2026-01-01T00:00:00.000Z")
    await polled(source)
    pinger.now = 130.0
    await polled(source)
    assert source.current
    assert source.current.reports.keys() == {"edge-2"}
    pinger.text = body(PingTime="2026-01-01T00:00:31.000Z")
    await polled(source)
    assert source.current.reports.keys() == {"edge-1", "edge-2"}


# Goldpinger's oddities. The bodies are written after its swagger.yml, v3 unless said otherwise.


def parsed(responses: object, names: dict[str, str] = NAMES, **more: object) -> tuple[Any, Any]:
    return parse_check_all(json.dumps({"OK": True, "responses": responses} | more).encode(), names)


def one(peers: object) -> GoldpingerReport:
    """What edge-1 reports of these peers."""
    return parsed({"gp-1": reporter(1, peers)})[0]["edge-1"]


@pytest.mark.parametrize(
    ("peers", "rtt_ms", "no_reply"),
    [
        ({"gp-2": peer(2, 12)}, {"edge-2": 13.0}, set()),
        ({"gp-2": peer(2), "gp-3": peer(3, 0)}, {"edge-2": 1.0, "edge-3": 1.0}, set()),
        ({"gp-2": peer(2, 300, ok=False, error="deadline exceeded"), "gp-3": peer(3, 5)}, {"edge-3": 6.0}, {"edge-2"}),
        ({"gp-2": None, "gp-9": peer(2, 4), "gp-1": peer(1)}, {"edge-2": 5.0}, set()),
        ({"gp-2": peer(2, -0.5), "gp-3": peer(3, 60_000), "gp-4": peer(4, 1e300)}, {}, set()),
    ],
    ids=["rounded down", "left out when 0", "not OK", "no result, and itself", "impossible times"],
)
def test_what_a_pod_reports_of_its_peers(peers: object, rtt_ms: dict[str, float], no_reply: set[str]) -> None:
    assert one(peers) == GoldpingerReport(rtt_ms, no_reply, "")


@pytest.mark.parametrize("response", [None, {}, {"podResults": None}])
@pytest.mark.parametrize("ok", [True, False])
def test_a_pod_whose_check_failed_or_brought_nothing_is_survived(ok: bool, response: object) -> None:
    found = parsed({"gp-1": {"OK": ok, "HostIP": "10.0.0.1", "response": response}, "gp-2": reporter(2, {})})
    assert found[0].keys() == {"edge-2"}


def test_a_value_that_cannot_be_read_is_named_and_costs_its_pair_alone() -> None:
    reports, unreadable = parsed(
        {"gp-1": reporter(1, {"gp-2": peer(2, "soon"), "gp-3": peer(3, 5)}), "gp-2": reporter(2, {})}
    )
    assert reports["edge-1"] == GoldpingerReport({"edge-3": 6.0}, set(), "")
    assert unreadable.keys() == {"gp-1 to gp-2"}
    assert "response-time-ms" in unreadable["gp-1 to gp-2"]


def test_a_reporter_that_cannot_be_read_is_named_and_the_others_count() -> None:
    found = parsed({"gp-1": {"OK": "yes"}, "gp-2": reporter(2, {"gp-1": peer(1, 3)})})
    assert found[0]["edge-2"].rtt_ms == {"edge-1": 4.0}
    assert found[1].keys() == {"gp-1"}


def test_a_peer_without_addresses_goes_by_the_list_of_hosts() -> None:
    hosts = [{"podName": "gp-2", "podIP": "10.1.0.2", "hostIP": "10.0.0.2"}, None]
    found = parsed({"gp-1": reporter(1, {"gp-2": {"OK": True}})}, hosts=hosts)
    assert found[0]["edge-1"].rtt_ms == {"edge-2": 1.0}


def test_without_a_name_a_node_goes_by_its_hosts_address() -> None:
    found = parsed({"gp-1": reporter(1, {"gp-2": peer(2, 4), "gp-9": {"OK": True}})}, {})
    assert found[0]["10.0.0.1"].rtt_ms == {"10.0.0.2": 5.0, "gp-9": 1.0}


def test_of_two_pods_on_a_node_the_worst_delay_counts() -> None:
    """As during a roll-out."""
    old, new = reporter(1, {"gp-2": peer(2, 4)}), reporter(1, {"gp-2": peer(2, 7), "gp-2b": peer(2, ok=False)})
    assert parsed({"gp-1": old, "gp-1b": new})[0]["edge-1"] == GoldpingerReport({"edge-2": 8.0}, set(), "")


def test_the_stamp_is_the_newest_ping_and_an_unset_time_is_none() -> None:
    earlier, later = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:03.000Z"
    assert one({"gp-2": peer(2, PingTime=later), "gp-3": peer(3, PingTime=earlier)}).last_pinged == later
    assert one({"gp-2": peer(2, PingTime="0001-01-01T00:00:00.000Z")}).last_pinged == ""


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b'{"OK": true}', b'{"responses": 3}', b'{"responses": null}']
)
def test_anything_else_is_no_answer(body: bytes) -> None:
    with pytest.raises(BadCheckAll, match="not a response to GET /check_all"):
        parse_check_all(body, NAMES)
