"""Observes how well healthy pods run: by their own metric, and by plugins. What cannot be had changes nothing."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.pods import plugins
from agent.pods.annotations import BadAnnotation, metric
from agent.pods.book import Book
from agent.pods.health import healthy
from agent.pods.plugins import Plugin
from agent.pods.scraping import AT_ONCE, Scraper
from apiserver.objects import Pod

log = logging.getLogger(__name__)

MOST_PODS = 128
"""Scraped in one round; of more, those that come first by UID."""


class Observing:
    """interval_seconds: between rounds; 0: never. problems: UID → what was wrong with its annotations; "": nothing."""

    def __init__(
        self, book: Callable[[], Book], interval_seconds: float, found: Sequence[Plugin] | None = None
    ) -> None:
        self._book, self._interval_seconds = book, interval_seconds
        self._plugins = plugins.installed() if found is None else found
        self.scraper = Scraper()
        self.problems: dict[str, str] = {}

    async def run(self) -> None:
        try:
            while self._interval_seconds:
                await asyncio.sleep(self._interval_seconds)
                await self.round()
        finally:
            await self.scraper.close()

    async def round(self) -> None:
        """One observation of every healthy pod, by all that can be asked."""
        pods = [life.pod for life in self._book().lives.values() if healthy(life.pod)]
        await self._scrape(pods)
        for plugin in self._plugins:
            for pod in pods:
                self._observed(pod, await plugin.observe(pod))

    async def _scrape(self, pods: Iterable[Pod]) -> None:
        pods = tuple(pods)
        self.problems = {pod.metadata.uid: self.problems.get(pod.metadata.uid, "") for pod in pods}
        wanted = sorted((pod for pod in pods if self._asks(pod)), key=lambda pod: pod.metadata.uid)[:MOST_PODS]
        self.scraper.keep_only({pod.metadata.uid for pod in wanted})
        for start in range(0, len(wanted), AT_ONCE):
            await asyncio.gather(*map(self._scraped, wanted[start : start + AT_ONCE]))

    def _asks(self, pod: Pod) -> bool:
        """A pod whose annotations are wrong is told of once, and not scraped."""
        uid = pod.metadata.uid
        try:
            found = metric(pod) is not None
        except BadAnnotation as error:
            if self.problems[uid] != str(error):
                log.warning("pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
            self.problems[uid] = str(error)
            return False
        return found

    async def _scraped(self, pod: Pod) -> None:
        wanted = metric(pod)
        cost = await self.scraper.cost(pod.metadata.uid, wanted) if wanted else None
        if wanted and cost is not None:
            self._observed(pod, {wanted.quality: cost})

    def _observed(self, pod: Pod, costs: Mapping[str, float]) -> None:
        for name, cost in costs.items():
            self._book().observe(pod.metadata.uid, name, cost)
