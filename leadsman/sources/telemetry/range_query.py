"""Range queries to Prometheus: the request and its response. Source:
prometheus.io/docs/prometheus/latest/querying/api/#range-queries.
"""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.kube.client import LARGEST_RESPONSE_BYTES, ApiRequest
from leadsman.kube.decoding import decode_json


class RangeSeries(Struct, frozen=True):
    """One series of a result.

    metric: label → value.
    values: Unix seconds and number, as text; a moment without a value is left out.
    """

    metric: Mapping[str, str] = {}
    values: tuple[tuple[float, str], ...] = ()


class _RangeData(Struct, frozen=True):
    result: tuple[RangeSeries, ...] = ()


class _RangeResponse(Struct):
    data: _RangeData = _RangeData()


def range_request(
    promql: str, start: float, end: float, step_seconds: float, max_bytes: int = LARGEST_RESPONSE_BYTES
) -> ApiRequest:
    """The values at start, start + step and so on until end, which are Unix seconds."""
    asked = {"query": promql, "start": f"{start}", "end": f"{end}", "step": f"{step_seconds}"}
    return ApiRequest("GET", "/api/v1/query_range", asked, max_bytes=max_bytes)


def range_series(body: bytes) -> tuple[RangeSeries, ...]:
    """All series of a response. MalformedResponse."""
    return decode_json(body, _RangeResponse).data.result
