"""The custom metrics API in both versions, exact values, and its failures."""

from typing import Any

import pytest

from leadsman.kube import quantity
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.polling import CustomMetricsSource, MetricUnavailable

GROUP = "/apis/custom.metrics.k8s.io"


def group(*versions: str) -> Any:
    return {
        "kind": "APIGroup",
        "versions": [{"groupVersion": f"custom.metrics.k8s.io/{v}", "version": v} for v in versions],
    }


def value(node: str, text: Any, timestamp: str | None = "2024-01-01T00:00:00Z", **more: Any) -> Any:
    described = {"kind": "Node", "name": node, "apiVersion": "/v1"}
    return {"describedObject": described, "timestamp": timestamp, "value": text, **more}


V1BETA1 = {"kind": "MetricValueList", "items": [value("a", "1500m", metricName="m"), value("b", "2Ki", metricName="m")]}
V1BETA2 = {
    "kind": "MetricValueList",
    "items": [value("a", "1500m", metric={"name": "m"}), value("b", "2Ki", metric={"name": "m"})],
}


@pytest.mark.parametrize(
    ("served", "version", "answer"),
    [(("v1beta1",), "v1beta1", V1BETA1), (("v1beta1", "v1beta2"), "v1beta2", V1BETA2)],
)
async def test_each_version_is_read_exactly(server: Any, served: Any, version: str, answer: Any) -> None:
    server.answers = {GROUP: group(*served), f"{GROUP}/{version}/nodes/*/m": answer}
    async with ApiClient(ApiAccess(server.url)) as client:
        samples = await CustomMetricsSource(client).query("m")
    assert {node: sample.nanos for node, sample in samples.items()} == {
        "a": quantity.parse("1500m"),
        "b": 2048 * quantity.NANO,
    }
    assert server.asked == [GROUP, f"{GROUP}/{version}/nodes/*/m"]


async def test_a_value_that_is_none_costs_only_its_node(server: Any) -> None:
    items = [value("a", "nonsense"), value("b", "7"), value("c", None)]
    server.answers = {GROUP: group("v1beta2"), f"{GROUP}/v1beta2/nodes/*/m": {"items": items}}
    async with ApiClient(ApiAccess(server.url)) as client:
        assert set(await CustomMetricsSource(client).query("m")) == {"b"}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "the custom metrics API is not installed"),
        ({GROUP: group("v2")}, "serves v2; one of v1beta2, v1beta1 is needed"),
        ({GROUP: group("v1beta2")}, "does not serve m for nodes"),
        ({GROUP: group("v1beta2"), f"{GROUP}/v1beta2/nodes/*/m": 503}, "Unavailable"),
        ({GROUP: group("v1beta2"), f"{GROUP}/v1beta2/nodes/*/m": 403}, "Forbidden"),
        ({GROUP: group("v1beta2"), f"{GROUP}/v1beta2/nodes/*/m": [1]}, "MalformedResponse"),
    ],
)
async def test_what_cannot_be_had_says_why(server: Any, answers: Any, said: str) -> None:
    server.answers = answers
    async with ApiClient(ApiAccess(server.url)) as client:
        with pytest.raises(MetricUnavailable, match=said):
            await CustomMetricsSource(client).query("m")
