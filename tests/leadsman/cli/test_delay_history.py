"""`leadsman delay --since` against a real API, with and without a real Prometheus behind it."""

import json
from collections.abc import Callable, Iterator

import pytest

from extender.api.prometheus_history import PrometheusHistory
from leadsman.cli.delay_history import MOST_ROWS, PARTS
from leadsman.kube.access import ApiAccess
from tests.extender.api.conftest import Api
from tests.extender.api.conftest import started as started_api
from tests.leadsman.cli.conftest import Called, extender_pod
from tests.page_server import invented_cluster
from tests.past_prometheus import needs_prometheus, prometheus_with, ring_series

A, B = invented_cluster(10).names[:2]


def url_of(api: Api) -> str:
    return str(api.session._base_url).rstrip("/")


async def test_a_pairs_past_is_what_the_replica_remembers_and_why(called: Called) -> None:
    async with started_api() as api:
        view = await api.live.view()
        api.live.history.add(view.at, view.table)
        code, out, err = await called("delay", A, B, "--since", "6h", "--page", url_of(api))
    title, _, row = out.splitlines()
    assert code == 0
    assert title.startswith(f"{A} and {B}, the slower direction, from this replica, since 20")
    assert len(row.split()) == 5
    assert "a replica remembers an hour of a pair; name a Prometheus with --prometheus-url" in err


async def test_the_plugin_reaches_the_page_through_a_forwarded_port(
    called: Called, kubectl: Callable[..., None]
) -> None:
    async with started_api() as api:
        view = await api.live.view()
        api.live.history.add(view.at, view.table)
        kubectl({"pods": [extender_pod("extender-a")]}, {"extender-a": {"api": api.session._base_url.port}})
        code, out, _ = await called("delay", A, B, "--since", "1h", LEADSMAN_EXTENDER="kubectl")
    assert code == 0
    assert out.startswith(f"{A} and {B}, the slower direction, from this replica")


async def test_before_anything_is_remembered_the_reason_is_said_in_words(called: Called) -> None:
    async with started_api() as api:
        code, _, err = await called("delay", "--since", "24h", "--page", url_of(api))
    assert code == 1
    assert "the history has no moment yet" in err
    assert "{" not in err


@pytest.mark.parametrize("names", [[A], []])
async def test_one_node_or_none_without_a_span_is_refused_with_what_to_write(called: Called, names: list[str]) -> None:
    code, _, err = await called("delay", *names)
    assert code == 2
    assert "name two nodes" in err


async def test_pairs_that_nobody_knows_are_said_to_be_unknown(called: Called) -> None:
    async with started_api() as api:
        view = await api.live.view()
        api.live.history.add(view.at, view.table)
        _, out, _ = await called("delay", "--since", "24h", "--page", url_of(api))
    assert "pairs: which pairs changed is known by Prometheus alone" in out


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus_with(tmp_path_factory.mktemp("past") / "prometheus", ring_series(invented_cluster(10))) as url:
        yield url


@pytest.mark.integration
@needs_prometheus
async def test_from_prometheus_a_pair_is_a_table_and_data_has_every_value(called: Called, prometheus: str) -> None:
    async with PrometheusHistory(ApiAccess(prometheus)) as history, started_api(prometheus=history) as api:
        _, out, err = await called("delay", A, B, "--since", "7d", "--page", url_of(api))
        data = json.loads((await called("delay", A, B, "--since", "7d", "-o", "json", "--page", url_of(api)))[1])
    title, titles, *rows = out.splitlines()
    assert title.endswith("from Prometheus, a value each 3600 s")
    assert titles.split() == ["FROM", "UNTIL", "LEAST-MS", "MEDIAN-MS", "LARGEST-MS"]
    assert len(rows) <= PARTS
    assert {tuple(row.split()[2:]) for row in rows} == {("5.5", "5.5", "5.5")}
    assert len(data["items"]) == 169
    assert err == ""


@pytest.mark.integration
@needs_prometheus
async def test_from_prometheus_what_got_worse_since_yesterday_begins_with_the_node_and_its_pairs(
    called: Called, prometheus: str
) -> None:
    async with PrometheusHistory(ApiAccess(prometheus)) as history, started_api(prometheus=history) as api:
        _, out, _ = await called("delay", "--since", "24h", "--page", url_of(api))
    nodes, pairs = (part.splitlines() for part in out.split("\n\n"))
    slow = invented_cluster(10).slow
    assert nodes[2].split()[0] == slow
    assert nodes[2].split()[-1] == "+35"
    assert slow in pairs[1].split()[:2]
    assert len(pairs) == MOST_ROWS + 1
