"""The delay history from a real Prometheus, and what is said where it gives none."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from msgspec import Struct

from extender.api.contract.delays import SPANS_SECONDS
from extender.api.prometheus_history import PrometheusHistory
from extender.api.prometheus_queries import MAX_PAIRS, MAX_POINTS, MomentChanges, PairSeries, Unanswered
from leadsman.kube.access import ApiAccess, access_from_url
from leadsman.runtime.http_server import serve, track_request
from leadsman.runtime.server_tls import ServerTls
from tests.extender.api.conftest import ApiStarter, Files
from tests.page_server import InventedCluster, invented_cluster
from tests.past_prometheus import (
    DAY_SECONDS,
    EVERY_SECONDS,
    SLOW_HOURS_AGO,
    SLOW_MS,
    labels,
    needs_prometheus,
    prometheus_with,
    ring_series,
)

pytestmark = [pytest.mark.integration, needs_prometheus]

HOUR = 3600
NODES = 10
TOKEN = "t0ken"
ODD_NAMES = ('a"} or vector(1)', "back\\slash", "two\nlines", "Grüße")
SPIKE_MS, SPIKE_HOURS_AGO = 500.0, 30


@pytest.fixture(scope="module")
def cluster() -> InventedCluster:
    return invented_cluster(NODES)


@pytest.fixture(scope="module")
def prometheus(cluster: InventedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Ring pairs; one pair of nodes that nobody can have, a spike a day and a quarter ago."""
    spike = time.time() - SPIKE_HOURS_AGO * HOUR
    odd = {labels(name, "edge-a-0000"): _constant(at + 1) for at, name in enumerate(ODD_NAMES)}
    spiky = {labels("spiky", "edge-a-0000"): lambda at: (5 + SPIKE_MS * (0 <= at - spike < EVERY_SECONDS)) / 1000}
    with prometheus_with(
        tmp_path_factory.mktemp("past") / "prometheus", {**ring_series(cluster), **odd, **spiky}
    ) as url:
        yield url


def _constant(ms: float) -> Callable[[float], float]:
    return lambda _: ms / 1000


@pytest.fixture
async def history(prometheus: str) -> AsyncIterator[PrometheusHistory]:
    async with PrometheusHistory(ApiAccess(prometheus)) as one:
        yield one


def series_of(answer: PairSeries | Unanswered) -> PairSeries:
    assert isinstance(answer, PairSeries), answer
    return answer


def reason_of(answer: object) -> str:
    assert isinstance(answer, Unanswered), answer
    return answer.reason


@pytest.mark.parametrize("since", SPANS_SECONDS)
async def test_a_pair_has_its_slower_direction_over_each_span(
    history: PrometheusHistory, cluster: InventedCluster, since: str
) -> None:
    span = SPANS_SECONDS[since]
    pair = series_of(await history.of_pair(cluster.names[0], cluster.names[1], span, time.time()))
    assert len(pair.moments) <= MAX_POINTS + 1
    assert pair.moments[-1].at - pair.moments[0].at == span
    assert {moment.rtt_ms for moment in pair.moments} == {5.5}, "edge-a-0001 measures half a ms more than edge-a-0000"


async def test_a_pair_changed_when_its_node_did(history: PrometheusHistory, cluster: InventedCluster) -> None:
    near = cluster.names[cluster.names.index(cluster.slow) + 1]
    pair = series_of(await history.of_pair(cluster.slow, near, SPANS_SECONDS["48h"], time.time()))
    began = next(moment.at for moment in pair.moments if (moment.rtt_ms or 0) > SLOW_MS)
    assert time.time() - began == pytest.approx(SLOW_HOURS_AGO * HOUR, abs=HOUR)


async def test_what_lasted_for_less_than_a_step_is_seen(history: PrometheusHistory) -> None:
    pair = series_of(await history.of_pair("edge-a-0000", "spiky", SPANS_SECONDS["7d"], time.time()))
    assert pair.step_seconds > 2 * EVERY_SECONDS
    assert max(moment.rtt_ms or 0 for moment in pair.moments) == 5 + SPIKE_MS


async def test_a_pair_that_rotates_and_a_node_that_is_not_scraped_are_two_reasons(
    history: PrometheusHistory, cluster: InventedCluster
) -> None:
    rotating = await history.of_pair(cluster.names[0], cluster.names[5], HOUR, time.time())
    assert "only peers on the ring" in reason_of(rotating)
    assert "let it scrape the agents" in reason_of(await history.of_pair("no-node", "nor-this", HOUR, time.time()))


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_a_name_is_never_read_as_promql(history: PrometheusHistory, name: str) -> None:
    pair = series_of(await history.of_pair("edge-a-0000", name, HOUR, time.time()))
    assert {moment.rtt_ms for moment in pair.moments} == {ODD_NAMES.index(name) + 1.0}


async def test_two_moments_have_each_nodes_median_and_the_pairs_that_changed_most(
    history: PrometheusHistory, cluster: InventedCluster
) -> None:
    now = time.time()
    changes = await history.changes(now - DAY_SECONDS, now + DAY_SECONDS, now)
    assert isinstance(changes, MomentChanges)
    assert changes.after.by_node[cluster.slow] - changes.before.by_node[cluster.slow] == pytest.approx(SLOW_MS)
    assert changes.after.at <= now, "a moment to come counts as now"
    pairs = await history.pair_changes(now - DAY_SECONDS, now + DAY_SECONDS, now)
    assert not isinstance(pairs, Unanswered)
    assert len(pairs) <= MAX_PAIRS
    moved = [pair for pair in pairs if pair.change_ms == pytest.approx(SLOW_MS)]
    assert len(moved) == 8, "four peers of the ring, both ways"
    assert all(cluster.slow in (pair.source, pair.target) for pair in moved)
    assert list(pairs[:8]) == moved


async def test_a_moment_before_its_first_sample_says_so(history: PrometheusHistory) -> None:
    now = time.time()
    answer = await history.changes(now - 30 * DAY_SECONDS, now, now)
    assert "no round trip of any node at 20" in reason_of(answer)


async def test_a_response_that_is_too_large_is_not_read_to_its_end(prometheus: str) -> None:
    async with PrometheusHistory(ApiAccess(prometheus), max_bytes=1000) as history:
        answer = await history.changes(time.time() - DAY_SECONDS, time.time(), time.time())
    assert "more than 1,000 bytes" in reason_of(answer)


async def test_a_prometheus_that_is_away_is_named_with_what_to_do(unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with PrometheusHistory(ApiAccess(url)) as history:
        reason = reason_of(await history.of_pair("a", "b", HOUR, time.time()))
    assert url in reason
    assert "--prometheus-url" in reason


async def test_one_that_never_answers_is_given_up_after_two_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with PrometheusHistory(ApiAccess(f"http://127.0.0.1:{silent.getsockname()[1]}")) as history:
            reason = reason_of(await history.of_pair("a", "b", HOUR, time.time()))
    assert "no response within 2 s" in reason


async def test_what_is_no_prometheus_is_said_to_be_none(prometheus: str) -> None:
    async with PrometheusHistory(ApiAccess(f"{prometheus}/graph")) as history:
        reason = reason_of(await history.of_pair("a", "b", HOUR, time.time()))
    assert "Prometheus gives no history" in reason
    assert "API server" not in reason


class Guard(Struct):
    """TLS and a bearer token before Prometheus, as kube-rbac-proxy has them.

    queries: that it let through. abandoned: who asked went away. released: queries wait for it.
    """

    url: str
    files: Files
    queries: list[str]
    abandoned: asyncio.Event
    released: asyncio.Event

    def access(self, folder: Path, token: str = TOKEN) -> ApiAccess:
        (folder / "token").write_text(f"{token}\n")
        return access_from_url(self.url, self.files.ca, folder / "token")


@pytest.fixture
async def guard(prometheus: str, files: Files) -> AsyncIterator[Guard]:
    guard = Guard("", files, [], asyncio.Event(), asyncio.Event())
    guard.released.set()
    async with aiohttp.ClientSession() as session:

        async def forward(request: web.Request) -> web.Response:
            if request.headers.get("Authorization") != f"Bearer {TOKEN}":
                return web.Response(status=401, text="no token that I know")
            guard.queries.append(request.query["query"])
            try:
                await guard.released.wait()
            except asyncio.CancelledError:
                guard.abandoned.set()
                raise
            async with session.get(f"{prometheus}{request.path_qs}") as response:
                return web.Response(body=await response.read(), content_type="application/json")

        app = web.Application(middlewares=[track_request])
        app.router.add_get("/api/v1/query_range", forward)
        async with serve(app, "127.0.0.1", 0, tls=ServerTls(files.certificate, files.key)) as port:
            guard.url = f"https://127.0.0.1:{port}"
            yield guard


async def test_one_behind_tls_is_asked_with_the_token_of_the_file(
    guard: Guard, cluster: InventedCluster, tmp_path: Path
) -> None:
    async with PrometheusHistory(guard.access(tmp_path)) as history:
        pair = series_of(await history.of_pair(cluster.names[0], cluster.names[1], HOUR, time.time()))
    assert {moment.rtt_ms for moment in pair.moments} == {5.5}


async def test_a_token_that_is_refused_and_a_ca_that_did_not_sign_are_named_with_their_flags(
    guard: Guard, tmp_path: Path
) -> None:
    async with PrometheusHistory(guard.access(tmp_path, "other")) as history:
        refused = reason_of(await history.of_pair("a", "b", HOUR, time.time()))
    async with PrometheusHistory(access_from_url(guard.url)) as history:
        unknown = reason_of(await history.of_pair("a", "b", HOUR, time.time()))
    assert "401 no token that I know" in refused
    assert "--prometheus-token-file" in refused
    assert "CERTIFICATE_VERIFY_FAILED" in unknown
    assert "--prometheus-ca" in unknown


async def test_a_view_asks_once_while_there_can_be_no_newer_value(guard: Guard, tmp_path: Path) -> None:
    now = time.time() // 60 * 60
    async with PrometheusHistory(guard.access(tmp_path)) as history:
        for later in (0, 7, 14):
            await history.of_pair("a", "b", HOUR, now + later)
            await history.changes(now - HOUR, now + later, now + later)
        assert len(guard.queries) == 2
        await history.of_pair("a", "b", HOUR, now + 15)
        assert len(guard.queries) == 3


async def test_a_question_that_is_cancelled_ends_its_query(guard: Guard, tmp_path: Path) -> None:
    guard.released.clear()
    async with PrometheusHistory(guard.access(tmp_path)) as history:
        question = asyncio.create_task(history.of_pair("a", "b", HOUR, time.time()))
        async with asyncio.timeout(60):
            while not guard.queries and not question.done():  # noqa: ASYNC110 -- what is waited for has no event
                await asyncio.sleep(0.01)
            question.cancel()
            await guard.abandoned.wait()


async def test_the_api_says_that_a_history_is_from_prometheus(
    starts_api: ApiStarter, history: PrometheusHistory, cluster: InventedCluster
) -> None:
    a, b = cluster.names[:2]
    async with starts_api(NODES, prometheus=history) as api:
        status, pair = await api.get(f"/delays/pairs/{a}/{b}/history?since=6h")
        _, change = await api.get(f"/delays/change?from={hours_ago(24)}&to={hours_ago(0)}")
        _, pairs = await api.get(f"/delays/change/pairs?from={hours_ago(24)}&to={hours_ago(0)}")
    assert status == 200
    assert pair["origin"] == {"source": "prometheus", "since": None, "step_seconds": 120, "note": ""}
    assert [point["rtt_ms"] for point in pair["items"]] == [5.5] * 181
    assert change["origin"]["source"] == "prometheus"
    assert change["items"][0]["node"] == cluster.slow, "a replica that has just started remembers nothing of it"
    assert cluster.slow in (pairs["items"][0]["source"], pairs["items"][0]["target"])


async def test_the_api_falls_back_to_what_the_replica_remembers_and_says_why(
    starts_api: ApiStarter, history: PrometheusHistory, cluster: InventedCluster
) -> None:
    a, b = cluster.names[0], cluster.names[5]
    async with starts_api(NODES, prometheus=history) as api:
        view = await api.live.view()
        api.live.history.add(view.at, view.table)
        _, pair = await api.get(f"/delays/pairs/{a}/{b}/history")
        _, change = await api.get(f"/delays/change?from={hours_ago(24 * 30)}&to={hours_ago(0)}")
    assert pair["origin"]["source"] == "replica"
    assert "only peers on the ring" in pair["origin"]["note"]
    assert len(pair["items"]) == 1
    assert change["origin"]["source"] == "replica"
    assert "no round trip of any node" in change["origin"]["note"]


def hours_ago(hours: int) -> str:
    return f"{datetime.now(UTC) - timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"
