"""An instant query to Prometheus for each metric. Source: prometheus.io/docs/prometheus/latest/querying/api.

A metric without a query of its own is asked for by its name. A label of the result names the node; a port behind it is
cut. Several series for one node are no value: which of them is meant, the query must say.
"""

import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from leadsman.decision import yaml_document
from leadsman.decision.telemetry import quantity
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.sources.telemetry.polling import MetricUnavailable, Sample, Samples

NAME = "prometheus"

_PORT = re.compile(r":\d+$", re.ASCII)


class BadQueries(ValueError):
    """The file of queries cannot be used. Names the file, the place and what is allowed."""


class PrometheusQueries(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """queries: metric → PromQL. node_label: of the result, that names the node."""

    node_label: Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*\Z")] = "node"
    queries: dict[str, str] = {}

    def promql(self, metric: str) -> str:
        return self.queries.get(metric) or f'{{__name__="{metric}"}}'


def parse_queries(text: str, name: str) -> PrometheusQueries:
    """BadQueries."""
    try:
        return msgspec.convert(yaml_document.load(text) or {}, PrometheusQueries)
    except (yaml_document.BadDocument, msgspec.ValidationError) as error:
        raise BadQueries(f"{name}: {error}; want nodeLabel: LABEL and queries: {{METRIC: PROMQL}}") from error


class _Series(Struct):
    metric: Mapping[str, str] = {}
    value: tuple[float, str] = (0.0, "")


class _QueryData(Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: Any = None


class _QueryResponse(Struct):
    data: _QueryData = _QueryData()


class PrometheusSource:
    """client: of Prometheus's own URL."""

    def __init__(self, client: ApiClient, queries: PrometheusQueries) -> None:
        self._client, self._queries = client, queries

    async def query(self, metric: str) -> Samples:
        """MetricUnavailable."""
        try:
            answer = await self._client.get("/api/v1/query", _QueryResponse, {"query": self._queries.promql(metric)})
        except ApiError as error:
            raise MetricUnavailable(f"{type(error).__name__}: {error}") from error
        if answer.data.result_type != "vector":
            raise MetricUnavailable(
                f"got a {answer.data.result_type or 'thing without a type'}, want an instant vector"
            )
        try:
            return self._samples(msgspec.convert(answer.data.result, list[_Series]))
        except msgspec.ValidationError as error:
            raise MetricUnavailable(f"not as Prometheus answers: {error}") from error

    def _samples(self, series: list[_Series]) -> Samples:
        nodes = [_PORT.sub("", each.metric.get(self._queries.node_label, "")) for each in series]
        times = Counter(nodes)
        found = {
            node: _parse_nanos(each.value[1]) for node, each in zip(nodes, series, strict=True) if times[node] == 1
        }
        samples = {node: Sample(nanos) for node, nanos in found.items() if node and nanos is not None}
        if series and not samples:
            label = self._queries.node_label
            raise MetricUnavailable(f"{len(series)} series, none of them the only one of a node by label {label}")
        return samples


def _parse_nanos(text: str) -> int | None:
    """Go's floats. NaN and the infinities are no values."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return quantity.from_float(float(number)) if number.is_finite() else None
