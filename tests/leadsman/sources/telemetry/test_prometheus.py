"""An instant query for each metric, one value a node."""

from typing import Any

import pytest

from leadsman.kube import quantity
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.polling import (
    BadQueries,
    MetricUnavailable,
    PrometheusQueries,
    PrometheusSource,
    parse_queries,
)

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
