"""Observes how well healthy pods run: by their own metric, and by plugins. What cannot be had changes nothing."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.pods import reward_plugins
from agent.pods.incident_ledger import IncidentLedger
from agent.pods.pod_status import is_healthy
from agent.pods.reward_annotations import InvalidAnnotation, parse_reward_metric
from agent.pods.reward_plugins import RewardPlugin
from agent.pods.scraping import MAX_CONCURRENT, MetricScraper
from leadsman.kube.objects import Pod

log = logging.getLogger(__name__)

MAX_PODS = 128
"""Scraped in one round; of more, those that come first by UID."""


class QualityObserver:
    """interval_seconds: between rounds; 0: never. problems: UID → what was wrong with its annotations; "": nothing."""

    def __init__(
        self, book: Callable[[], IncidentLedger], interval_seconds: float, found: Sequence[RewardPlugin] | None = None
    ) -> None:
        self._book, self._interval_seconds = book, interval_seconds
        self._plugins = reward_plugins.load_plugins() if found is None else found
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
        """One observation of every healthy pod, by all that can be asked."""
        pods = [life.pod for life in self._book().pods.values() if is_healthy(life.pod)]
        await self._scrape(pods)
        for plugin in self._plugins:
            for pod in pods:
                self._observed(pod, await plugin.observe(pod))

    async def _scrape(self, pods: Iterable[Pod]) -> None:
        pods = tuple(pods)
        self.annotation_errors = {pod.metadata.uid: self.annotation_errors.get(pod.metadata.uid, "") for pod in pods}
        wanted = sorted((pod for pod in pods if self._asks(pod)), key=lambda pod: pod.metadata.uid)[:MAX_PODS]
        self.scraper.keep_only({pod.metadata.uid for pod in wanted})
        for start in range(0, len(wanted), MAX_CONCURRENT):
            await asyncio.gather(*map(self._scraped, wanted[start : start + MAX_CONCURRENT]))

    def _asks(self, pod: Pod) -> bool:
        """A pod whose annotations are wrong is told of once, and not scraped."""
        uid = pod.metadata.uid
        try:
            found = parse_reward_metric(pod) is not None
        except InvalidAnnotation as error:
            if self.annotation_errors[uid] != str(error):
                log.warning("pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
            self.annotation_errors[uid] = str(error)
            return False
        return found

    async def _scraped(self, pod: Pod) -> None:
        wanted = parse_reward_metric(pod)
        cost = await self.scraper.scrape_cost(pod.metadata.uid, wanted) if wanted else None
        if wanted and cost is not None:
            self._observed(pod, {wanted.quality: cost})

    def _observed(self, pod: Pod, costs: Mapping[str, float]) -> None:
        for name, cost in costs.items():
            self._book().observe_quality(pod.metadata.uid, name, cost)
