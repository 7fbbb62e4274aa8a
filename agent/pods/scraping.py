"""Reads a pod's own metric over HTTP. A read that fails teaches nothing: a dead endpoint is no bad value.

Bounds: 2 s, 1 MiB, 4 at once, no redirect, and each metric once in `observe_seconds`.
"""

import asyncio

import aiohttp

from agent.pods import series_expression
from agent.pods.reward_annotations import RewardMetric

DEADLINE_SECONDS = 2.0
MAX_PAGE_BYTES = 1 << 20
MAX_CONCURRENT = 4

ScrapedSums = tuple[float, float | None]


class MetricScraper:
    """Scrapes pods, and remembers the last sums of each for values that are a rate of two counters.

    scrapes, failures: since the start, for metrics.
    """

    def __init__(self, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._deadline_seconds = deadline_seconds
        self._session: aiohttp.ClientSession | None = None
        self._before: dict[str, ScrapedSums] = {}
        self.scrapes, self.failures = 0, 0

    async def scrape_cost(self, uid: str, metric: RewardMetric) -> float | None:
        """The cost that the metric has now; None when it is unknown."""
        self.scrapes += 1
        page = await self._page(metric.url)
        after = series_expression.evaluate_page(metric.series, page) if page is not None else None
        if after is None:
            self.failures += 1
            return None
        value = series_expression.value_between(self._before.get(uid), after)
        self._before[uid] = after
        return None if value is None else metric.cost(value)

    def keep_only(self, uids: set[str]) -> None:
        self._before = {uid: reading for uid, reading in self._before.items() if uid in uids}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _page(self, url: str) -> str | None:
        try:
            async with (
                asyncio.timeout(self._deadline_seconds),
                self._http().get(url, allow_redirects=False, headers={"Accept": "text/plain"}) as response,
            ):
                body = await _read(response) if response.status == 200 else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None
        return None if body is None else body.decode(errors="replace")

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=MAX_CONCURRENT, force_close=True)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """The page; None when it is too large."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > MAX_PAGE_BYTES:
            return None
    return bytes(body)
