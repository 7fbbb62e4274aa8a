"""The custom metrics API, as prometheus-adapter and others serve it: one metric of all nodes.

GET /apis/custom.metrics.k8s.io/<version>/nodes/*/<metric>; v1beta2, or v1beta1 where that is all there is.
Source: k8s.io/metrics/pkg/apis/custom_metrics.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from apiserver.errors import ApiError, NotFound
from apiserver.requests import Client
from decision.telemetry import quantity
from telemetry.polling import NoAnswer, Sample, Samples

NAME = "custom-metrics"
GROUP = "/apis/custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")


class _Version(Struct):
    version: str = ""


class _Group(Struct):
    versions: list[_Version] = []


class _Object(Struct, frozen=True):
    name: str = ""


class _Value(Struct, frozen=True, rename="camel"):
    described_object: _Object = _Object()
    timestamp: str | None = None
    value: Any = None


class _Values(Struct):
    items: list[_Value] | None = None


class CustomMetrics:
    def __init__(self, client: Client) -> None:
        self._client, self._version = client, ""

    async def ask(self, metric: str) -> Samples:
        """NoAnswer."""
        try:
            version = self._version or await self._discover()
            found = await self._client.get(f"{GROUP}/{version}/nodes/*/{metric}", _Values)
        except NotFound as error:
            self._version = ""
            raise NoAnswer(f"not served for nodes: {error}") from error
        except ApiError as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        return dict(_samples(found.items or []))

    async def _discover(self) -> str:
        """Which version is served."""
        try:
            group = await self._client.get(GROUP, _Group)
        except NotFound as error:
            raise NoAnswer("the custom metrics API is not installed") from error
        served = {each.version for each in group.versions}
        self._version = next((version for version in VERSIONS if version in served), "")
        if not self._version:
            raise NoAnswer(f"got versions {', '.join(sorted(served)) or 'none'}, want {' or '.join(VERSIONS)}")
        return self._version


def _samples(items: list[_Value]) -> Iterator[tuple[str, Sample]]:
    """Without what is no quantity: that node has no value."""
    for item in items:
        try:
            yield item.described_object.name, Sample(quantity.parse(str(item.value)), item.timestamp or "")
        except quantity.BadQuantity:
            continue
