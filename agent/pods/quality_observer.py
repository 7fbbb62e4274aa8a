"""Observes how well healthy pods run, by their own metric and by plugins. An unreadable value changes nothing."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import aiohttp

from agent.pods import reward_annotations
from agent.pods.incident_ledger import IncidentLedger
from agent.pods.incidents import is_healthy
from agent.pods.reward_annotations import InvalidAnnotation, RewardMetric, parse_reward_metric
from agent.pods.reward_plugins import RewardPlugin
from leadsman.kube.objects import Pod

# Reads a pod's own metric over HTTP. A read that fails teaches nothing: a dead endpoint is no bad value.
#
# Bounds: 2 s, 1 MiB, 4 at once, no redirect, and each metric once in `observe_seconds`.

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
        after = reward_annotations.evaluate_page(metric.series, page) if page is not None else None
        if after is None:
            self.failures += 1
            return None
        value = reward_annotations.value_between(self._before.get(uid), after)
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


log = logging.getLogger(__name__)

MAX_PODS = 128
"""Scraped in one round. Of more pods, those that come first by UID are."""


class QualityObserver:
    """Observes all healthy pods in rounds.

    annotation_errors: pod's UID → what is wrong with its annotations; "" when nothing is.
    """

    def __init__(
        self,
        ledger: Callable[[], IncidentLedger],
        interval_seconds: float,
        plugins: Sequence[RewardPlugin] = (),
    ) -> None:
        """interval_seconds: between two rounds; 0 switches them off."""
        self._ledger, self._interval_seconds = ledger, interval_seconds
        self.plugins = plugins
        self.scraper = MetricScraper()
        self.annotation_errors: dict[str, str] = {}

    async def run(self) -> None:
        try:
            while self._interval_seconds:
                await asyncio.sleep(self._interval_seconds)
                await self.observe_all()
        finally:
            await self.scraper.close()

    async def observe_all(self) -> None:
        """Observes every healthy pod once, by its own metric and by each plugin."""
        pods = [health.pod for health in self._ledger().pods.values() if is_healthy(health.pod)]
        await self._scrape(pods)
        for plugin in self.plugins:
            for pod in pods:
                self._record(pod, await plugin.observe(pod))

    async def _scrape(self, pods: Iterable[Pod]) -> None:
        pods = tuple(pods)
        self.annotation_errors = {pod.metadata.uid: self.annotation_errors.get(pod.metadata.uid, "") for pod in pods}
        scraped = sorted((pod for pod in pods if self._has_metric(pod)), key=lambda pod: pod.metadata.uid)[:MAX_PODS]
        self.scraper.keep_only({pod.metadata.uid for pod in scraped})
        for start in range(0, len(scraped), MAX_CONCURRENT):
            await asyncio.gather(*map(self._scrape_pod, scraped[start : start + MAX_CONCURRENT]))

    def _has_metric(self, pod: Pod) -> bool:
        """Whether the pod names a metric to scrape. Wrong annotations are logged once, and the pod is not scraped."""
        uid = pod.metadata.uid
        try:
            return parse_reward_metric(pod) is not None
        except InvalidAnnotation as error:
            if self.annotation_errors[uid] != str(error):
                log.warning("agent does not scrape pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
            self.annotation_errors[uid] = str(error)
            return False

    async def _scrape_pod(self, pod: Pod) -> None:
        metric = parse_reward_metric(pod)
        cost = await self.scraper.scrape_cost(pod.metadata.uid, metric) if metric else None
        if metric and cost is not None:
            self._record(pod, {metric.quality: cost})

    def _record(self, pod: Pod, costs: Mapping[str, float]) -> None:
        for name, cost in costs.items():
            self._ledger().observe_quality(pod.metadata.uid, name, cost)
