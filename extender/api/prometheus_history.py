"""Asks Prometheus for the delay history: one query for a pair, two for two moments. Answers are kept until
there can be newer values.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from extender.api.contract.delays import PairChange
from extender.api.prometheus_queries import (
    MEDIANS_QUERY,
    MomentChanges,
    PairSeries,
    Unanswered,
    pair_query,
    pairs_query,
    read_medians,
    read_pair,
    read_pairs,
    step_for,
)
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Forbidden, InvalidRequest, ResponseTooLarge, Unauthorized
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.lru import LruCache
from leadsman.sources.telemetry.range_query import RangeSeries, range_request, range_series

T = TypeVar("T")

QUERY_SECONDS = 2.0
"""A person waits."""

PAIRS_SECONDS = 10.0
"""For ranking all pairs at two moments, which the rest of the view does not wait for: some 0.6 s of Prometheus' CPU for
1,000 nodes of 20 series each."""

MAX_ANSWER_BYTES = 4 << 20
"""Two moments of 1,000 nodes are 95 kB."""

KEPT_SECONDS = 15
"""For which an answer counts, also that there is none: Prometheus rarely scrapes more often, and one that is away is
not asked at each look."""

_KEPT_ANSWERS = 8

_WHAT_TO_DO: dict[type[ApiError], str] = {
    Unauthorized: "name a file with a token that it takes in --prometheus-token-file",
    Forbidden: "give the token of --prometheus-token-file the right to query",
    InvalidRequest: "--prometheus-url must lead to Prometheus 2.33 or later, or to what speaks its API",
    ResponseTooLarge: "let --prometheus-url lead to a Prometheus that has this cluster alone",
}
_LOOK = "look at it, and at --prometheus-url and --prometheus-ca"


class PrometheusHistory:
    """`async with` it. A question that is cancelled ends its query."""

    def __init__(self, access: ApiAccess, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        """access: of Prometheus."""
        self._client = ApiClient(access, deadline_seconds=QUERY_SECONDS, connections=4)
        self._patient = ApiClient(access, deadline_seconds=PAIRS_SECONDS, connections=1)
        self._max_bytes = max_bytes
        self._kept = LruCache[Hashable, Any](_KEPT_ANSWERS)

    async def __aenter__(self) -> "PrometheusHistory":
        await self._client.__aenter__()
        await self._patient.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()
        await self._patient.close()

    async def of_pair(self, a: str, b: str, span_seconds: int, now: float) -> PairSeries | Unanswered:
        """The newest values of the span. now: Unix seconds."""
        step, end = step_for(span_seconds), _newest(now)
        moments = range(end - span_seconds, end + 1, step)
        return await self._answer(
            self._client, pair_query(a, b, step), moments, lambda series: read_pair(series, a, b, moments)
        )

    async def changes(self, before: float, after: float, now: float) -> MomentChanges | Unanswered:
        """All nodes at two moments, in Unix seconds, the earlier first. A later moment than now counts as now."""
        begin, end = _both(before, after, now)
        return await self._answer(
            self._client, MEDIANS_QUERY, _two(begin, end), lambda series: read_medians(series, begin, end)
        )

    async def pair_changes(self, before: float, after: float, now: float) -> Sequence[PairChange] | Unanswered:
        """The pairs that changed most between the moments of `changes`."""
        begin, end = _both(before, after, now)
        return await self._answer(
            self._patient, pairs_query(begin, end), _two(begin, end), lambda series: read_pairs(series, begin, end)
        )

    async def _answer(
        self, client: ApiClient, promql: str, moments: range, read: Callable[[tuple[RangeSeries, ...]], T | Unanswered]
    ) -> T | Unanswered:
        key = (promql, moments)
        answer: T | Unanswered | None = self._kept.get(key)
        if answer is None:
            request = range_request(promql, moments[0], moments[-1], moments.step, self._max_bytes)
            try:
                body = await client.send(request)
                answer = await run_in_daemon_thread(lambda: read(range_series(body)), "leadsman-read-prometheus")
            except ApiError as error:
                what_to_do = _WHAT_TO_DO.get(type(error), _LOOK)
                text = str(error).replace("API server", "Prometheus", 1)
                answer = Unanswered(f"Prometheus gives no history: {text}; {what_to_do}")
            self._kept.put(key, answer)
        return answer


def _both(before: float, after: float, now: float) -> tuple[int, int]:
    return min(round(before), _newest(now)), min(round(after), _newest(now))


def _two(begin: int, end: int) -> range:
    """One query has both moments: its step is the time between them."""
    return range(begin, end + 1, max(1, end - begin))


def _newest(now: float) -> int:
    return int(now) // KEPT_SECONDS * KEPT_SECONDS
