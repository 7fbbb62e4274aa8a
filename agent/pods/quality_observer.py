"""Observes how well healthy pods run, by their own metric and by plugins. An unreadable value changes nothing."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.pods.incident_ledger import IncidentLedger
from agent.pods.pod_status import is_healthy
from agent.pods.reward_annotations import InvalidAnnotation, parse_reward_metric
from agent.pods.reward_plugins import RewardPlugin
from agent.pods.scraping import MAX_CONCURRENT, MetricScraper
from leadsman.kube.objects import Pod

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
