"""Metrics of what is followed on the API server. A scrape reads memory only."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from leadsman.kube.reflector import Reflector

_RESOURCE = ("resource",)


def reflector_metrics(reflectors: Mapping[str, Reflector[Any]], now: float) -> Iterator[Metric]:
    """Metrics of each reflector, by what it follows. now: monotonic seconds, on the reflectors' clock."""
    held = GaugeMetricFamily("leadsman_apiserver_objects", "Objects held from list and watch.", labels=_RESOURCE)
    age = GaugeMetricFamily(
        "leadsman_apiserver_age_seconds",
        "Seconds since the API server last confirmed the list or watch.",
        labels=_RESOURCE,
    )
    relists = CounterMetricFamily(
        "leadsman_apiserver_relists", "Complete lists read, the first and those after a broken watch.", labels=_RESOURCE
    )
    problems = CounterMetricFamily(
        "leadsman_apiserver_problems", "Objects that could not be decoded and are ignored.", labels=_RESOURCE
    )
    cut = CounterMetricFamily(
        "leadsman_apiserver_cut_objects",
        "Versions of objects with so many labels or annotations that only those which Leadsman reads are kept.",
        labels=_RESOURCE,
    )
    reconnects = CounterMetricFamily(
        "leadsman_apiserver_reconnects", "Watches that were lost and opened again.", labels=_RESOURCE
    )
    errors = CounterMetricFamily(
        "leadsman_apiserver_errors", "Lists and watches that failed.", labels=["resource", "error"]
    )
    for resource_name, one in reflectors.items():
        name = [resource_name]
        held.add_metric(name, one.object_count)
        relists.add_metric(name, one.relists)
        reconnects.add_metric(name, one.reconnects)
        problems.add_metric(name, one.decode_error_count)
        cut.add_metric(name, one.cut_count)
        if one.loaded.is_set():
            age.add_metric(name, one.age_seconds(now))
        for error, count in sorted(one.errors.items()):
            errors.add_metric([*name, error], count)
    yield from (held, age, relists, reconnects, problems, cut, errors)
