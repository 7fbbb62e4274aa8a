"""Pods' own metrics over real HTTP: what cannot be had changes nothing."""

import asyncio
import time

import pytest
from aiohttp import web

from agent.pods.incident_ledger import CountedTotals, IncidentLedger
from agent.pods.quality_observer import MAX_PAGE_BYTES, MetricScraper, QualityObserver
from tests.agent.pods import given


class Exporter:
    """A pod's endpoint on a loopback address; `answer` is what it says next."""

    def __init__(self) -> None:
        self.answer, self.status, self.asked, self.silent = "queue_seconds 2\n", 200, 0, False

    async def __aenter__(self):
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    async def _metrics(self, _):
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        return web.Response(text=self.answer, status=self.status, headers={"Location": "/metrics"})


@pytest.fixture
async def exporter():
    async with Exporter() as one:
        yield one


@pytest.fixture
def ledger():
    return IncidentLedger({}, CountedTotals(), False, time.monotonic, time.time)


@pytest.fixture
async def observing(ledger):
    one = QualityObserver(lambda: ledger, 30.0)
    one.scraper = MetricScraper(deadline_seconds=0.2)
    yield one
    await one.scraper.close()


def asking(exporter, series="queue_seconds"):
    said = {"leadsman.dev/reward-port": str(exporter.port), "leadsman.dev/reward-series": series}
    return given.pod("Running", given.running(), annotations=said, ip="127.0.0.1")


def qualities(ledger):
    return ledger.rewards["shop"].qualities if "shop" in ledger.rewards else {}


async def test_a_metric_becomes_a_quality_of_the_type(exporter, ledger, observing) -> None:
    ledger.on_pod_updated(asking(exporter))
    await observing.observe_all()
    assert set(qualities(ledger)) == {"queue_seconds"}


@pytest.mark.parametrize("trouble", ["refused", "silent", "status", "absent", "redirect", "large"])
async def test_an_unreachable_metric_changes_nothing(exporter, ledger, observing, trouble: str) -> None:
    exporter.silent = trouble == "silent"
    exporter.status = {"status": 500, "redirect": 302}.get(trouble, 200)
    exporter.answer = {"absent": "other 1\n", "large": "queue_seconds 2\n" * MAX_PAGE_BYTES}.get(
        trouble, exporter.answer
    )
    if trouble == "refused":
        await exporter.__aexit__()
    ledger.on_pod_updated(asking(exporter))
    await observing.observe_all()
    assert ledger.rewards == {}
    assert exporter.asked <= 1


async def test_a_pod_that_is_not_healthy_is_not_asked(exporter, ledger, observing) -> None:
    said = asking(exporter).metadata.annotations
    ledger.on_pod_updated(given.pod("Running", given.running(ready=False), annotations=said, ip="127.0.0.1"))
    await observing.observe_all()
    assert exporter.asked == 0


async def test_wrong_annotations_are_told_and_the_other_pods_are_asked(exporter, ledger, observing) -> None:
    ledger.on_pod_updated(asking(exporter))
    wrong = {"leadsman.dev/reward-series": "a b", "leadsman.dev/reward-port": "80"}
    ledger.on_pod_updated(given.pod("Running", given.running(), annotations=wrong, uid="other", ip="127.0.0.1"))
    await observing.observe_all()
    assert "must be name" in observing.annotation_errors["other"]
    assert exporter.asked == 1
