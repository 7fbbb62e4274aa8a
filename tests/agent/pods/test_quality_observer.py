"""Pods' own metrics over real HTTP, and plugins: what cannot be had changes nothing."""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from agent.pods import reward_plugins
from agent.pods.counted_totals import CountedTotals
from agent.pods.incident_ledger import IncidentLedger, RestoredState
from agent.pods.quality_observer import QualityObserver
from agent.pods.reward_plugins import RewardPlugin
from agent.pods.scraping import MAX_PAGE_BYTES, MetricScraper
from leadsman.kube.objects import Pod

if TYPE_CHECKING:
    from tests.agent.pods.conftest import Given


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
    return IncidentLedger(RestoredState({}, CountedTotals(), False), time.monotonic, time.time)


@pytest.fixture
async def observing(ledger):
    one = QualityObserver(lambda: ledger, 30.0, [])
    one.scraper = MetricScraper(deadline_seconds=0.2)
    yield one
    await one.scraper.close()


def asking(given, exporter, series="queue_seconds"):
    said = {"leadsman.dev/reward-port": str(exporter.port), "leadsman.dev/reward-series": series}
    return given.pod("Running", given.running(), annotations=said, ip="127.0.0.1")


def qualities(ledger):
    return ledger.rewards["shop"].qualities if "shop" in ledger.rewards else {}


async def test_a_metric_becomes_a_quality_of_the_type(given: "type[Given]", exporter, ledger, observing) -> None:
    ledger.on_pod_updated(asking(given, exporter))
    await observing.observe_all()
    assert set(qualities(ledger)) == {"queue_seconds"}


@pytest.mark.parametrize("trouble", ["refused", "silent", "status", "absent", "redirect", "large"])
async def test_an_unreachable_metric_changes_nothing(
    given: "type[Given]", exporter, ledger, observing, trouble: str
) -> None:
    exporter.silent = trouble == "silent"
    exporter.status = {"status": 500, "redirect": 302}.get(trouble, 200)
    exporter.answer = {"absent": "other 1\n", "large": "queue_seconds 2\n" * MAX_PAGE_BYTES}.get(
        trouble, exporter.answer
    )
    if trouble == "refused":
        await exporter.__aexit__()
    ledger.on_pod_updated(asking(given, exporter))
    await observing.observe_all()
    assert ledger.rewards == {}
    assert observing.scraper.failures == 1
    assert exporter.asked <= 1


async def test_a_pod_that_is_not_healthy_is_not_asked(given: "type[Given]", exporter, ledger, observing) -> None:
    said = asking(given, exporter).metadata.annotations
    ledger.on_pod_updated(given.pod("Running", given.running(ready=False), annotations=said, ip="127.0.0.1"))
    await observing.observe_all()
    assert exporter.asked == 0


async def test_wrong_annotations_are_told_and_the_other_pods_are_asked(
    given: "type[Given]", exporter, ledger, observing
) -> None:
    ledger.on_pod_updated(asking(given, exporter))
    wrong = {"leadsman.dev/reward-series": "a b", "leadsman.dev/reward-port": "80"}
    ledger.on_pod_updated(given.pod("Running", given.running(), annotations=wrong, uid="other", ip="127.0.0.1"))
    await observing.observe_all()
    assert "must be name" in observing.annotation_errors["other"]
    assert exporter.asked == 1


async def test_a_plugin_s_costs_become_qualities_and_bad_names_are_left_out(given: "type[Given]", ledger) -> None:
    ledger.on_pod_updated(given.pod("Running", given.running()))
    await QualityObserver(
        lambda: ledger, 30.0, [RewardPlugin("mine", lambda _: {"frames": 3.0, "no name": 1.0})]
    ).observe_all()
    assert set(qualities(ledger)) == {"frames"}


async def test_a_plugin_that_raises_or_returns_nonsense_changes_nothing(given: "type[Given]", ledger) -> None:
    def broken(_):
        raise KeyError("frames")

    ledger.on_pod_updated(given.pod("Running", given.running()))
    for costs in (broken, lambda _: None, lambda _: {"frames": "many"}):
        plugin = RewardPlugin("mine", costs)  # type: ignore[arg-type]
        await QualityObserver(lambda: ledger, 30.0, [plugin]).observe_all()
        assert plugin.problem.text
    assert ledger.rewards == {}


async def test_a_plugin_that_overran_is_not_asked_again(
    given: "type[Given]", ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reward_plugins, "DEADLINE_SECONDS", 0.05)
    asked = []

    def slow(pod: Pod) -> dict[str, float]:
        asked.append(pod)
        time.sleep(0.2)
        return {}

    plugin = RewardPlugin("slow", slow)
    ledger.on_pod_updated(given.pod("Running", given.running()))
    for _ in range(2):
        await QualityObserver(lambda: ledger, 30.0, [plugin]).observe_all()
    assert len(asked) == 1


def test_a_plugin_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[leadsman.rewards]\nframes = mine_reward:frames\nbad = mine_reward:none\n")
    (tmp_path / "mine_reward.py").write_text("def frames(pod):\n    return {'frames': 1.0}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [plugin.name for plugin in reward_plugins.load_plugins()] == ["frames"]
