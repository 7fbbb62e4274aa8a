"""Reads one metric of all nodes from the custom metrics API, as prometheus-adapter and others serve it.

GET /apis/custom.metrics.k8s.io/<version>/nodes/*/<metric>; v1beta2, or v1beta1 where that is all there is.
Source: k8s.io/metrics/pkg/apis/custom_metrics.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from leadsman.kube import quantity
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.sources.telemetry.polling import MetricUnavailable, Sample, Samples

NAME = "custom-metrics"
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
        """The metric's samples by node. MetricUnavailable."""
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
        """The version that the API server serves, remembered until a query fails."""
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
