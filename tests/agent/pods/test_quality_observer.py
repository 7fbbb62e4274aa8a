"""Pods' own metrics over real HTTP: what cannot be had changes nothing."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from aiohttp import web

from agent.pods import quality_observer
from agent.pods.incident_ledger import CountedTotals, IncidentLedger
from agent.pods.quality_observer import (
    MAX_PAGE_BYTES,
    InvalidAnnotation,
    MetricScraper,
    QualityObserver,
    parse_reward_metric,
)
from leadsman.kube.names import PORT_ANNOTATION, SERIES_ANNOTATION
from leadsman.runtime.http_server import serve
from tests.agent.pods import given


@pytest.fixture
async def exporter():
    """A pod's endpoint on a loopback address; `answer` is what it says next."""
    one = SimpleNamespace(answer="queue_seconds 2\n", status=200, asked=0, silent=False)

    async def metrics(_):
        one.asked += 1
        if one.silent:
            await asyncio.Event().wait()
        return web.Response(text=one.answer, status=one.status, headers={"Location": "/metrics"})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    async with serve(app, "127.0.0.1", 0) as one.port:
        yield one


@pytest.fixture
def ledger():
    return IncidentLedger({}, CountedTotals(), False, time.monotonic, time.time)


@pytest.fixture
async def observing(ledger):
    one = QualityObserver(lambda: ledger, 30.0)
    one.scraper = MetricScraper(deadline_seconds=0.2)
    yield one
    await one.scraper.close()


def asking(exporter, series="queue_seconds"):
    said = {"leadsman.dev/reward-port": str(exporter.port), "leadsman.dev/reward-series": series}
    return given.pod("Running", given.running(), annotations=said, ip="127.0.0.1")


def qualities(ledger):
    return ledger.rewards["shop"].qualities if "shop" in ledger.rewards else {}


async def test_a_metric_becomes_a_quality_of_the_type(exporter, ledger, observing) -> None:
    ledger.on_pod_updated(asking(exporter))
    await observing.observe_all()
    assert set(qualities(ledger)) == {"queue_seconds"}


@pytest.mark.parametrize(
    "trouble",
    [
        *({"port": 1}, {"silent": True}, {"status": 500}, {"status": 302}, {"answer": "other 1\n"}),
        {"answer": "queue_seconds 2\n" * MAX_PAGE_BYTES},
    ],
    ids=["refused", "silent", "status", "redirect", "absent", "large"],
)
async def test_an_unreachable_metric_changes_nothing(exporter, ledger, observing, trouble) -> None:
    vars(exporter).update(trouble)
    ledger.on_pod_updated(asking(exporter))
    await observing.observe_all()
    assert ledger.rewards == {}
    assert exporter.asked <= 1


async def test_sums_of_another_series_are_no_earlier_sums(exporter, ledger, observing) -> None:
    exporter.answer = "a_sum 10\na_count 100\nb_sum 5000\nb_count 200\n"
    for series in ("a_sum / a_count", "b_sum / b_count"):
        ledger.on_pod_updated(asking(exporter, series))
        await observing.observe_all()
    assert qualities(ledger) == {}


async def test_a_pod_that_is_not_healthy_is_not_asked(exporter, ledger, observing) -> None:
    said = asking(exporter).metadata.annotations
    ledger.on_pod_updated(given.pod("Running", given.running(ready=False), annotations=said, ip="127.0.0.1"))
    await observing.observe_all()
    assert exporter.asked == 0


async def test_wrong_annotations_are_told_and_the_other_pods_are_asked(exporter, ledger, observing) -> None:
    ledger.on_pod_updated(asking(exporter))
    wrong = {"leadsman.dev/reward-series": "a b", "leadsman.dev/reward-port": "80"}
    ledger.on_pod_updated(given.pod("Running", given.running(), annotations=wrong, uid="other", ip="127.0.0.1"))
    await observing.observe_all()
    assert "must be name" in observing.annotation_errors["other"]
    assert exporter.asked == 1


# What a pod may say of its own reward, and one value out of a page of metrics.


def annotated(**said):
    return given.pod(
        "Running", given.running(), annotations={f"leadsman.dev/reward-{name}": value for name, value in said.items()}
    )


def test_a_metric_is_read_from_the_pod_s_own_address() -> None:
    found = parse_reward_metric(annotated(port="9100", series="queue_seconds"))
    assert found.url == "http://10.244.1.7:9100/metrics"
    assert found.quality == "queue_seconds"
    assert found.cost(2.0) == 2.0


def test_higher_is_better_turns_the_cost_around() -> None:
    found = parse_reward_metric(annotated(port="9100", path="/m", series="frames_per_second", direction="higher"))
    assert found.cost(4.0) == 0.25
    assert found.cost(0.0) == 0.0


def test_a_pod_without_annotations_or_with_the_host_s_address_has_none() -> None:
    assert parse_reward_metric(given.pod("Running", given.running())) is None
    on_host = {SERIES_ANNOTATION: "a", PORT_ANNOTATION: "10250"}
    assert parse_reward_metric(given.pod("Running", given.running(), annotations=on_host, ip="10.0.0.1")) is None


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"series": "a"}, "reward-port"),
        ({"series": "a", "port": "70000"}, "70000"),
        ({"series": "a", "port": "80", "path": "http://elsewhere/"}, "begin with /"),
        ({"series": "a b", "port": "80"}, "reward-series"),
        ({"series": "a", "port": "80", "direction": "up"}, "lower or higher"),
    ],
)
def test_a_wrong_annotation_is_named_with_what_is_allowed(said, wrong: str) -> None:
    with pytest.raises(InvalidAnnotation, match=wrong):
        parse_reward_metric(annotated(**said))


PAGE = """# HELP queue_seconds Time in the queue.
# TYPE queue_seconds gauge
queue_seconds{queue="in",zone="a"} 2
queue_seconds{queue="out",zone="a"} 4 1395066363000
queue_seconds_max 99
broken_seconds NaN
request_seconds_sum{path="/"} 30
request_seconds_count{path="/"} 10
"""


def read(text, page=PAGE):
    return quality_observer.evaluate_page(quality_observer.parse_expression(text), page)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("queue_seconds", (3.0, None)),
        ('queue_seconds{queue="out"}', (4.0, None)),
        *((text, None) for text in ("absent", 'queue_seconds{queue="x"}', "broken_seconds", "queue_seconds / absent")),
    ],
)
def test_a_gauge_is_the_mean_of_the_samples_that_labels_choose_and_what_is_not_there_is_unknown(text, found) -> None:
    assert read(text) == found


def test_counters_tell_the_mean_of_what_came_since() -> None:
    text = "request_seconds_sum / request_seconds_count"
    later = PAGE.replace('sum{path="/"} 30', 'sum{path="/"} 36').replace('count{path="/"} 10', 'count{path="/"} 13')
    before, after = read(text), read(text, later)
    assert quality_observer.value_between(None, before) is None
    assert quality_observer.value_between(before, after) == pytest.approx(2.0)
    assert quality_observer.value_between(after, after) is None, "nothing happened"
    assert quality_observer.value_between(after, before) is None, "the counters restarted"


@pytest.mark.parametrize("text", ["", "1x", "a b", "a{b=1}", "a / ", "rate(a[5m])"])
def test_what_is_no_series_is_refused_with_what_is_wanted(text: str) -> None:
    with pytest.raises(InvalidAnnotation, match="must be name"):
        quality_observer.parse_expression(text)
