"""A table that is as young as its measurements: errors keep the old values, which age."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from leadsman.kube import quantity
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.polling import (
    RETENTION_SECONDS,
    BadQueries,
    CustomMetricsSource,
    MetricPoller,
    MetricUnavailable,
    PrometheusQueries,
    PrometheusSource,
    Sample,
    Samples,
    merge_samples,
    parse_queries,
)
from tests.testbed.background import running
from tests.testbed.clock import Clock


class Source:
    """answers: metric → samples, or an error, or a wait."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = answers, list[str]()

    async def ask(self, metric: str) -> Samples:
        self.asked.append(metric)
        answer = self.answers[metric]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        return answer


def poller(source: Source, wanted: Callable[[], Any], clock: Clock, **more: Any) -> MetricPoller:
    return MetricPoller("test", source.ask, wanted, clock=clock, **more)


async def test_only_what_a_policy_names_is_asked_for_and_kept() -> None:
    source, wanted = Source(m={"a": Sample(1)}, n={"a": Sample(2)}), {"m", "n"}
    polled = poller(source, lambda: wanted, Clock())
    await polled.poll()
    wanted.remove("n")
    await polled.poll()
    assert source.asked == ["m", "n", "m"]
    assert set(polled.current.columns) == {"m"}


async def test_an_error_keeps_the_values_and_their_age() -> None:
    clock, source = Clock(), Source(m={"a": Sample(1)})
    polled = poller(source, lambda: ["m"], clock)
    await polled.poll()
    before = polled.current.columns["m"]
    source.answers["m"], clock.now = MetricUnavailable("away"), 110.0
    await polled.poll()
    assert polled.current.columns["m"] is before
    assert before.oldest_read_at == 100.0
    assert polled.errors == {"m": "away"}
    source.answers["m"] = {"a": Sample(1)}
    await polled.poll()
    assert polled.errors == {}
    assert polled.current.columns["m"].oldest_read_at == 110.0


async def test_one_metric_that_hangs_holds_up_no_other() -> None:
    source = Source(m=asyncio.Event(), n={"a": Sample(2)})
    polled = poller(source, lambda: ["m", "n"], Clock(), deadline_seconds=0.05)
    await polled.poll()
    assert set(polled.current.columns) == {"n"}
    assert polled.errors == {"m": "no answer within 0.05 s"}


async def test_a_measurement_that_did_not_change_its_stamp_is_no_new_one() -> None:
    """An adapter that answers from a broken pipeline repeats its last sample without end, now and then without it."""
    clock, source, one, other = Clock(), Source(), Sample(1, "10:00"), Sample(1, "10:05")
    polled = poller(source, lambda: ["m"], clock)
    for clock.now, answer in ((100.0, {"a": one, "b": one}), (105.0, {"b": other}), (110.0, {"a": one, "b": other})):
        source.answers["m"] = answer
        await polled.poll()
    assert dict(polled.current.columns["m"].read_at or {}) == {"a": 100.0, "b": 105.0}


def test_a_node_that_is_missing_keeps_its_value_until_it_is_forgotten() -> None:
    first = {"a": Sample(1), "b": Sample(2)}
    column = merge_samples(None, {}, first, 100.0)
    later = merge_samples(column, first, {"a": Sample(3)}, 105.0)
    assert dict(later.values) == {"a": 3, "b": 2}
    assert later.oldest_read_at == 100.0
    assert dict(merge_samples(later, {}, {"a": Sample(3)}, 100.0 + RETENTION_SECONDS).values) == {"a": 3}


async def test_a_nudge_polls_at_once() -> None:
    source, asked = Source(m={"a": Sample(1)}), asyncio.Queue[None]()

    def wanted() -> list[str]:
        asked.put_nowait(None)
        return ["m"]

    polled = poller(source, wanted, Clock(), interval_seconds=600.0)
    async with running(polled.run()), asyncio.timeout(60):
        await asked.get()
        polled.poll_soon()
        await asked.get()


# The custom metrics API in both versions, exact values, and its failures.

GROUP = "/apis/custom.metrics.k8s.io"


def group(*versions: str) -> Any:
    return {
        "kind": "APIGroup",
        "versions": [{"groupVersion": f"custom.metrics.k8s.io/{v}", "version": v} for v in versions],
    }


def value(node: str, text: Any, **more: Any) -> Any:
    described = {"kind": "Node", "name": node, "apiVersion": "/v1"}
    return {"describedObject": described, "timestamp": "2024-01-01T00:00:00Z", "value": text, **more}


def values(**named: Any) -> Any:
    return {"kind": "MetricValueList", "items": [value("a", "1500m", **named), value("b", "2Ki", **named)]}


SERVED, M = {GROUP: group("v1beta2")}, f"{GROUP}/v1beta2/nodes/*/m"


async def custom(server: Any, answers: Any) -> dict[str, int]:
    """What the source makes of the answers, by node."""
    server.answers = answers
    async with ApiClient(ApiAccess(server.url)) as client:
        return {node: sample.nanos for node, sample in (await CustomMetricsSource(client).query("m")).items()}


@pytest.mark.parametrize(
    ("served", "version", "answer"),
    [
        (("v1beta1",), "v1beta1", values(metricName="m")),
        (("v1beta1", "v1beta2"), "v1beta2", values(metric={"name": "m"})),
    ],
)
async def test_each_version_is_read_exactly(server: Any, served: Any, version: str, answer: Any) -> None:
    found = await custom(server, {GROUP: group(*served), f"{GROUP}/{version}/nodes/*/m": answer})
    assert found == {"a": quantity.parse("1500m"), "b": 2048 * quantity.NANO}
    assert server.asked == [GROUP, f"{GROUP}/{version}/nodes/*/m"]


async def test_a_value_that_is_none_costs_only_its_node(server: Any) -> None:
    items = [value("a", "nonsense"), value("b", "7"), value("c", None)]
    assert set(await custom(server, SERVED | {M: {"items": items}})) == {"b"}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "the custom metrics API is not installed"),
        ({GROUP: group("v2")}, "serves v2; one of v1beta2, v1beta1 is needed"),
        (SERVED, "does not serve m for nodes"),
        (SERVED | {M: 503}, "Unavailable"),
        (SERVED | {M: 403}, "Forbidden"),
        (SERVED | {M: [1]}, "MalformedResponse"),
    ],
)
async def test_what_cannot_be_had_says_why(server: Any, answers: Any, said: str) -> None:
    with pytest.raises(MetricUnavailable, match=said):
        await custom(server, answers)


# An instant query for each metric, one value a node.

PATH = "/api/v1/query"


def vector(*series: tuple[dict[str, str], str]) -> Any:
    result = [{"metric": labels, "value": [1700000000.1, text]} for labels, text in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


async def asked(server: Any, answer: Any, queries: PrometheusQueries = PrometheusQueries(), metric: str = "m") -> Any:  # noqa: B008
    server.answers = {PATH: answer}
    async with ApiClient(ApiAccess(server.url)) as client:
        return {node: sample.nanos for node, sample in (await PrometheusSource(client, queries).query(metric)).items()}


async def test_values_by_the_label_that_names_the_node(server: Any) -> None:
    found = await asked(server, vector(({"node": "a"}, "0.1"), ({"node": "b"}, "1e+06"), ({"node": "c"}, "-3")))
    assert found == {node: quantity.parse(text) for node, text in (("a", "100m"), ("b", "1M"), ("c", "-3"))}
    assert server.queries == ['{__name__="m"}']


async def test_a_metric_may_have_a_query_of_its_own_and_another_label(server: Any) -> None:
    queries = parse_queries("nodeLabel: instance\nqueries: {m: 'max by (instance) (node_hwmon_temp_celsius)'}", "f")
    found = await asked(server, vector(({"instance": "a:9100"}, "7"), ({"instance": "b"}, "8")), queries)
    assert set(found) == {"a", "b"}
    assert server.queries == ["max by (instance) (node_hwmon_temp_celsius)"]


async def test_of_a_node_with_several_series_none_is_chosen(server: Any) -> None:
    answer = vector(({"node": "a", "cpu": "0"}, "1"), ({"node": "a", "cpu": "1"}, "2"), ({"node": "b"}, "3"))
    assert set(await asked(server, answer)) == {"b"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            vector(({"node": "a", "cpu": "0"}, "1"), ({"node": "a", "cpu": "1"}, "2")),
            "none of the 2 series of m is the only one",
        ),
        (vector(({"instance": "a"}, "1")), "by the label node"),
        (
            {"status": "success", "data": {"resultType": "matrix", "result": []}},
            "returned matrix for m; the query must return an instant vector",
        ),
        (
            {"status": "success", "data": {"resultType": "vector", "result": [7]}},
            "response of Prometheus cannot be parsed",
        ),
        (422, "InvalidRequest"),
        (503, "Unavailable"),
    ],
)
async def test_what_cannot_be_used_says_why(server: Any, answer: Any, said: str) -> None:
    with pytest.raises(MetricUnavailable, match=said):
        await asked(server, answer)


@pytest.mark.parametrize("text", ["queries: [a]", "nodelabel: x", "nodeLabel: 'a b'", "[", "queries: {m: 7}"])
def test_a_bad_file_of_queries_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadQueries, match=r"queries.yaml: .*write nodeLabel: LABEL"):
        parse_queries(text, "queries.yaml")
