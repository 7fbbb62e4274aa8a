"""Reads each metric by an instant query to Prometheus. Source: prometheus.io/docs/prometheus/latest/querying/api.

A metric without a query of its own is queried by its name. A label of the result names the node; a port after it is
cut off. A node with several series has no value: the query must say which of them is meant.
"""

import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from leadsman.decision import yaml_document
from leadsman.kube import quantity
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.runtime.decode_errors import explain
from leadsman.sources.telemetry.polling import MetricUnavailable, Sample, Samples

NAME = "prometheus"

_PORT = re.compile(r":\d+$", re.ASCII)


class BadQueries(ValueError):
    """The file of queries cannot be used. Names the file, the path in it and what is allowed."""


class PrometheusQueries(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How metrics are queried.

    node_label: the label of the result that names the node.
    queries: metric → PromQL; any other metric is queried by its name.
    """

    node_label: Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*\Z")] = "node"
    queries: dict[str, str] = {}

    def promql(self, metric: str) -> str:
        """The query of the metric."""
        return self.queries.get(metric) or f'{{__name__="{metric}"}}'


def parse_queries(text: str, name: str) -> PrometheusQueries:
    """Reads the file of queries. name: the file's, for the error. BadQueries."""
    try:
        return msgspec.convert(yaml_document.load(text) or {}, PrometheusQueries)
    except (yaml_document.BadDocument, msgspec.ValidationError) as error:
        why = explain(error) if isinstance(error, msgspec.ValidationError) else error
        raise BadQueries(f"{name}: {why}; write nodeLabel: LABEL and queries: {{METRIC: PROMQL}}") from error


class Series(Struct):
    """One series of a result.

    metric: label → value, the metric's name as __name__.
    value: time and number, as text.
    """

    metric: Mapping[str, str] = {}
    value: tuple[float, str] = (0.0, "")


class _QueryData(Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: Any = None


class _QueryResponse(Struct):
    data: _QueryData = _QueryData()


class PrometheusSource:
    """Queries Prometheus. client: of Prometheus's URL."""

    def __init__(self, client: ApiClient, queries: PrometheusQueries) -> None:
        self._client, self._queries = client, queries

    async def query(self, metric: str) -> Samples:
        """The metric's samples by node. MetricUnavailable."""
        return self._samples(metric, await self.series(metric, self._queries.promql(metric)))

    async def series(self, name: str, promql: str) -> list[Series]:
        """All series of a query. name: what it asks for, in errors. MetricUnavailable."""
        try:
            response = await self._client.get("/api/v1/query", _QueryResponse, {"query": promql})
        except ApiError as error:
            raise MetricUnavailable(f"{type(error).__name__}: {error}") from error
        result_type = response.data.result_type
        if result_type != "vector":
            raise MetricUnavailable(
                f"Prometheus returned {result_type or 'no result type'} for {name};"
                " the query must return an instant vector"
            )
        try:
            return msgspec.convert(response.data.result, list[Series])
        except msgspec.ValidationError as error:
            raise MetricUnavailable(f"the response of Prometheus cannot be parsed: {explain(error)}") from error

    def _samples(self, metric: str, series: list[Series]) -> Samples:
        nodes = [node_name(each.metric.get(self._queries.node_label, "")) for each in series]
        series_per_node = Counter(nodes)
        values = {
            node: _parse_nanos(each.value[1])
            for node, each in zip(nodes, series, strict=True)
            if series_per_node[node] == 1
        }
        samples = {node: Sample(nanos) for node, nanos in values.items() if node and nanos is not None}
        if series and not samples:
            label = self._queries.node_label
            raise MetricUnavailable(
                f"none of the {len(series)} series of {metric} is the only one of a node by the label {label};"
                f" aggregate the query by ({label}) or set nodeLabel"
            )
        return samples


def node_name(label: str) -> str:
    """The node of a label's value: a port is cut off."""
    return _PORT.sub("", label)


def _parse_nanos(text: str) -> int | None:
    """A float as Go writes it; None for NaN and the infinities, which are not values."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return quantity.from_float(float(number)) if number.is_finite() else None
