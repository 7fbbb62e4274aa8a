"""Reads what pods used, from a file or from Prometheus, for forecasts.

    CSV   time,workload,cpu,memory: a line for one pod at one time; time in Unix seconds or as RFC 3339; cpu and memory
          as quantities (250m, 1.5Gi); an empty one is unknown
    JSON  a list of objects with the same fields

Prometheus is asked by range queries, a day at a time.
"""

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from leadsman.kube import quantity
from leadsman.kube.client import ApiClient
from leadsman.planning.forecast.model import RESOURCES, Series, UsageHistory
from leadsman.sources.telemetry.range_query import RangeSeries, range_request, range_series

DAY_SECONDS = 86_400.0

_RULE = "* on (namespace, pod) group_left (workload, workload_type) namespace_workload_pod:kube_pod_owner:relabel"

DEFAULT_QUERIES = {
    "cpu": "sum by (namespace, workload, workload_type, pod)"
    f" (node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate {_RULE})",
    "memory": "sum by (namespace, workload, workload_type, pod)"
    f' (container_memory_working_set_bytes{{container!="",image!=""}} {_RULE})',
}
"""By the recording rules of kube-prometheus (kubernetes-monitoring/kubernetes-mixin, rules/apps.libsonnet)."""

_UNITS = {"cpu": 1000.0, "memory": 1.0}
"""Millis a core, bytes a byte."""

Sample = tuple[str, str, float, float]
"""Workload, resource, Unix seconds, millis or bytes."""


class BadHistory(ValueError):
    """A history cannot be used. Names the line or item, the field, the value and what is allowed."""


class _Item(Struct):
    time: float | str
    workload: str
    cpu: float | str = ""
    memory: float | str = ""


def parse_history(text: str) -> UsageHistory:
    """The history of a file's text, JSON when it begins with a bracket. BadHistory."""
    items = _json_items(text) if text.lstrip().startswith("[") else _csv_items(text)
    history = _gathered(sample for place, item in items for sample in _samples(place, item))
    if not history:
        raise BadHistory("no sample; write a line time,workload,cpu,memory for each")
    return history


async def query_history(
    client: ApiClient, queries: Mapping[str, str], end: float, days: int, step_seconds: float
) -> UsageHistory:
    """What Prometheus has of the last days. client: of its URL. queries: resource → PromQL, in cores and bytes, a
    series a pod with the labels namespace, workload and workload_type. BadHistory when there is nothing; ApiError."""
    found: list[Sample] = []
    for resource, query in queries.items():
        for day in range(days, 0, -1):
            start = end - day * DAY_SECONDS
            body = await client.send(range_request(query, start, start + DAY_SECONDS - 1, step_seconds))
            found += _range_samples(resource, range_series(body))
    if not found:
        raise BadHistory(f"Prometheus has no series for {' nor for '.join(queries.values())}")
    return _gathered(found)


def _range_samples(resource: str, result: Iterable[RangeSeries]) -> Iterator[Sample]:
    for series in result:
        labels = series.metric
        workload = (
            f"{labels.get('namespace', '')}/{labels.get('workload_type', 'deployment')}/{labels.get('workload', '')}"
        )
        for time, text in series.values:
            if math.isfinite(value := float(text)):
                yield workload, resource, time, value * _UNITS[resource]


def _json_items(text: str) -> Iterator[tuple[str, _Item]]:
    try:
        items = msgspec.json.decode(text, type=list[_Item])
    except msgspec.DecodeError as error:
        raise BadHistory(f"{error}; must be a list of {{time, workload, cpu, memory}}") from error
    yield from ((f"[{number}]", item) for number, item in enumerate(items))


def _csv_items(text: str) -> Iterator[tuple[str, _Item]]:
    rows = csv.DictReader(io.StringIO(text))
    missing = {"time", "workload"} - set(rows.fieldnames or ())
    if missing:
        raise BadHistory(f"line 1: {', '.join(sorted(missing))} missing; write time,workload,cpu,memory")
    for row in rows:
        fields = {name: row.get(name) or "" for name in ("time", "workload", "cpu", "memory")}
        yield f"line {rows.line_num}", _Item(**fields)


def _samples(place: str, item: _Item) -> Iterator[Sample]:
    if item.workload.count("/") != 2:
        raise BadHistory(f'{place}: workload "{item.workload[:63]}"; must be namespace/kind/name')
    time = _time(place, item.time)
    for resource, given in (("cpu", item.cpu), ("memory", item.memory)):
        if given != "":
            yield item.workload, resource, time, _amount(place, resource, given) * _UNITS[resource]


def _time(place: str, given: float | str) -> float:
    try:
        time = float(given)
    except ValueError:
        try:
            time = datetime.fromisoformat(str(given)).timestamp()
        except ValueError as error:
            raise BadHistory(f'{place}: time "{given}"; must be Unix seconds or RFC 3339') from error
    if not math.isfinite(time):
        raise BadHistory(f'{place}: time "{given}"; must be Unix seconds or RFC 3339')
    return time


def _amount(place: str, resource: str, given: float | str) -> float:
    try:
        nanos = quantity.parse(str(given))
    except quantity.BadQuantity as error:
        raise BadHistory(f"{place}: {resource}: {error}") from error
    if nanos < 0:
        raise BadHistory(f'{place}: {resource}: "{given}"; must be 0 or more')
    return nanos / quantity.NANO


def _gathered(samples: Iterable[Sample]) -> UsageHistory:
    """In order of time, whatever the order of the samples."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for workload, resource, time, value in samples:
        found[workload][resource].append((time, value))
    return {
        workload: {resource: _series(by_resource[resource]) for resource in RESOURCES if resource in by_resource}
        for workload, by_resource in sorted(found.items())
    }


def _series(pairs: list[tuple[float, float]]) -> Series:
    table: Any = np.array(sorted(pairs), np.float64)
    return Series(table[:, 0], table[:, 1])
