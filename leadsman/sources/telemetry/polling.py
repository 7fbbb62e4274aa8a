"""Polls the metrics that policies name from a source, and keeps the newest values as a table."""

import asyncio
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from leadsman.decision import yaml_document
from leadsman.decision.inputs import DEFAULT_MAX_AGE_SECONDS, PolledMetrics, Readings
from leadsman.kube import quantity
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.runtime.decode_errors import explain
from leadsman.runtime.problem_log import ProblemLog

POLL_INTERVAL_SECONDS = 5.0
"""Three polls within the age limit: one that fails makes no value too old."""

POLL_TIMEOUT_SECONDS = 3.0

RETENTION_SECONDS = 600.0
"""Says how long a node without a new value is remembered as one that reports the metric."""

_MAX_CONCURRENT = 8
_MIN_PAUSE_SECONDS = 0.2

log = logging.getLogger(__name__)


class MetricUnavailable(Exception):
    """The source cannot return the metric now; the last values age until a later poll succeeds."""


class Sample(NamedTuple):
    """The value of one node.

    nanos: the value in billionths (see leadsman.kube.quantity).
    timestamp: changes with each measurement; "": unknown.
    """

    nanos: int
    timestamp: str = ""


Samples = Mapping[str, Sample]
"""Maps each node to its sample."""


class MetricPoller:
    """Polls one source. `run` it as one task; readers take `current`, which is replaced and never altered.

    query: returns one metric's samples or raises MetricUnavailable.
    metrics: returns the metrics to poll now.
    age_seconds: how long a value counts.
    clock: monotonic seconds, the one of decisions.
    errors: metric → why the last poll did not read it.
    """

    def __init__(
        self,
        name: str,
        query: Callable[[str], Awaitable[Samples]],
        metrics: Callable[[], Collection[str]],
        *,
        interval_seconds: float = POLL_INTERVAL_SECONDS,
        deadline_seconds: float = POLL_TIMEOUT_SECONDS,
        age_seconds: float = DEFAULT_MAX_AGE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.name, self.current = name, PolledMetrics(max_age_seconds=age_seconds)
        self._problems: dict[str, ProblemLog] = {}
        self._query, self._metrics, self._clock, self._rng = query, metrics, clock, rng or random.Random()
        self._interval_seconds, self._deadline_seconds = interval_seconds, deadline_seconds
        self._last_samples: dict[str, Samples] = {}
        self._poll_requested = asyncio.Event()

    @property
    def errors(self) -> Mapping[str, str]:
        return {metric: problem.text for metric, problem in self._problems.items() if problem.text}

    async def run(self) -> None:
        """Polls until cancelled."""
        while True:
            began = self._clock()
            self._poll_requested.clear()
            await self.poll()
            await self._pause(self._interval_seconds * self._rng.uniform(0.9, 1.1) - (self._clock() - began))

    def poll_soon(self) -> None:
        """Makes the next poll come at once, because policies name another metric."""
        self._poll_requested.set()

    async def poll(self) -> None:
        """Queries each metric once, and forgets metrics that no policy names any more."""
        metrics = sorted(self._metrics())
        self._drop_others(frozenset(metrics))
        self._problems = {metric: self._problems.get(metric) or self._problem_log(metric) for metric in metrics}
        slots = asyncio.Semaphore(_MAX_CONCURRENT)
        async with asyncio.TaskGroup() as group:
            for metric in metrics:
                group.create_task(self._poll(metric, slots), name=f"poll {metric}")

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(_MIN_PAUSE_SECONDS)
        try:
            async with asyncio.timeout(max(0.0, seconds - _MIN_PAUSE_SECONDS)):
                await self._poll_requested.wait()
        except TimeoutError:
            return

    async def _poll(self, metric: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                async with asyncio.timeout(self._deadline_seconds):
                    samples = await self._query(metric)
            except TimeoutError:
                self._problems[metric].report(f"no answer within {self._deadline_seconds:g} s")
            except MetricUnavailable as error:
                self._problems[metric].report(str(error))
            else:
                self._accept(metric, samples)

    def _accept(self, metric: str, samples: Samples) -> None:
        last_samples = self._last_samples.get(metric, {})
        column = merge_samples(self.current.columns.get(metric), last_samples, samples, self._clock())
        newest = {**last_samples, **samples}
        self._last_samples[metric] = {node: newest[node] for node in column.values}
        columns = {**self.current.columns, metric: column}
        self.current = PolledMetrics(MappingProxyType(columns), self.current.max_age_seconds)
        self._problems[metric].clear()

    def _problem_log(self, metric: str) -> ProblemLog:
        begins = f"source {self.name} gives no {metric}; the last values stay in use until they are too old"
        return ProblemLog(log, begins, f"source {self.name} gives {metric} again")

    def _drop_others(self, metrics: frozenset[str]) -> None:
        if self.current.columns.keys() <= metrics:
            return
        columns = {metric: column for metric, column in self.current.columns.items() if metric in metrics}
        self.current = PolledMetrics(MappingProxyType(columns), self.current.max_age_seconds)
        self._last_samples = {metric: last for metric, last in self._last_samples.items() if metric in metrics}


def merge_samples(before: Readings | None, last_samples: Samples, samples: Samples, now: float) -> Readings:
    """Updates the readings by a response. last_samples: the newest of each node before it.

    Only a new measurement counts as read now. A node that is missing keeps its value, which ages.
    """
    readings = before or Readings()
    times = readings.read_at or {}
    recent = {node: value for node, value in readings.values.items() if now - times[node] < RETENTION_SECONDS}
    values = {**recent, **{node: sample.nanos for node, sample in samples.items()}}
    new = {node for node, sample in samples.items() if not sample.timestamp or last_samples.get(node) != sample}
    read_at = {node: now if node in new else times.get(node, now) for node in values}
    return Readings(MappingProxyType(values), MappingProxyType(read_at), min(read_at.values(), default=float("inf")))


# Reads each metric by an instant query to Prometheus. Source: prometheus.io/docs/prometheus/latest/querying/api.
#
# A metric without a query of its own is queried by its name. A label of the result names the node; a port after it is
# cut off. A node with several series has no value: the query must say which of them is meant.

PROMETHEUS = "prometheus"

_PORT = re.compile(r":\d+$", re.ASCII)


class BadQueries(ValueError):
    """The file of queries cannot be used; the text names the file, the path in it and what is allowed."""


class PrometheusQueries(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Says how metrics are queried in Prometheus.

    node_label: the label of the result that names the node.
    queries: metric → PromQL; any other metric is queried by its name.
    """

    node_label: Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*\Z")] = "node"
    queries: dict[str, str] = {}

    def promql(self, metric: str) -> str:
        """Returns the query of the metric."""
        return self.queries.get(metric) or f'{{__name__="{metric}"}}'


def parse_queries(text: str, name: str) -> PrometheusQueries:
    """Reads the file of queries. name: the file's, for the error. Raises BadQueries."""
    try:
        return msgspec.convert(yaml_document.load(text) or {}, PrometheusQueries)
    except (yaml_document.BadDocument, msgspec.ValidationError) as error:
        why = explain(error) if isinstance(error, msgspec.ValidationError) else error
        raise BadQueries(f"{name}: {why}; write nodeLabel: LABEL and queries: {{METRIC: PROMQL}}") from error


class Series(Struct):
    """One series of a query's result.

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
    """Queries Prometheus at one instant. client: of Prometheus's URL."""

    def __init__(self, client: ApiClient, queries: PrometheusQueries) -> None:
        self._client, self._queries = client, queries

    async def query(self, metric: str) -> Samples:
        """Returns the metric's samples by node. Raises MetricUnavailable."""
        return self._samples(metric, await self.series(metric, self._queries.promql(metric)))

    async def series(self, name: str, promql: str) -> list[Series]:
        """Returns all series of a query. name: what it asks for, in errors. Raises MetricUnavailable."""
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
    """Finds the node in a label's value, without the port."""
    return _PORT.sub("", label)


def _parse_nanos(text: str) -> int | None:
    """Returns a float as Go writes it; None for NaN and the infinities, which are not values."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return quantity.from_float(float(number)) if number.is_finite() else None


# Reads one metric of all nodes from the custom metrics API, as prometheus-adapter and others serve it.
#
# GET /apis/custom.metrics.k8s.io/<version>/nodes/*/<metric>; v1beta2, or v1beta1 where that is all there is. Source:
# k8s.io/metrics/pkg/apis/custom_metrics.

CUSTOM_METRICS = "custom-metrics"
API_PATH = "/apis/custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")


class _ApiVersion(Struct):
    version: str = ""


class _ApiGroup(Struct):
    versions: list[_ApiVersion] = []


class _ObjectReference(Struct, frozen=True):
    name: str = ""


class _MetricValue(Struct, frozen=True, rename="camel"):
    described_object: _ObjectReference = _ObjectReference()
    timestamp: str | None = None
    value: Any = None


class _MetricValueList(Struct):
    items: list[_MetricValue] | None = None


class CustomMetricsSource:
    """Queries the custom metrics API. client: of the API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client, self._version = client, ""

    async def query(self, metric: str) -> Samples:
        """Returns the metric's samples by node. Raises MetricUnavailable."""
        try:
            version = self._version or await self._discover()
            values = await self._client.get(f"{API_PATH}/{version}/nodes/*/{metric}", _MetricValueList)
        except NotFound as error:
            self._version = ""
            raise MetricUnavailable(f"the custom metrics API does not serve {metric} for nodes: {error}") from error
        except ApiError as error:
            raise MetricUnavailable(f"{type(error).__name__}: {error}") from error
        return dict(_samples(values.items or []))

    async def _discover(self) -> str:
        """Returns the version that the API server serves, remembered until a query fails."""
        try:
            group = await self._client.get(API_PATH, _ApiGroup)
        except NotFound as error:
            raise MetricUnavailable("the custom metrics API is not installed") from error
        served = {each.version for each in group.versions}
        self._version = next((version for version in VERSIONS if version in served), "")
        if not self._version:
            versions = ", ".join(sorted(served)) or "no version"
            raise MetricUnavailable(f"the custom metrics API serves {versions}; one of {', '.join(VERSIONS)} is needed")
        return self._version


def _samples(items: list[_MetricValue]) -> Iterator[tuple[str, Sample]]:
    """A node whose value is not a quantity has no sample."""
    for item in items:
        try:
            value = str(item.value) if isinstance(item.value, str | int | float) else ""
            yield item.described_object.name, Sample(quantity.parse(value), item.timestamp or "")
        except quantity.BadQuantity:
            continue
