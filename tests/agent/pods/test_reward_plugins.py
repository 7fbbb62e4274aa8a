"""Rewards of other packages: what they return counts, and one that fails or hangs changes nothing."""

import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from agent.pods import quality_observer
from agent.pods.incident_ledger import CountedTotals, IncidentLedger
from agent.pods.quality_observer import QualityObserver, RewardPlugin
from agent.quarantine import FIRST_PAUSE_SECONDS
from leadsman.plugin import RunningPod
from tests.agent.pods import given


def reward(
    costs: Callable[[RunningPod], Mapping[str, float]], clock: Callable[[], float] = time.monotonic
) -> RewardPlugin:
    plugin: Any = SimpleNamespace(api_version=1, costs=costs)
    return RewardPlugin("mine", plugin, clock)


@pytest.fixture
def ledger() -> IncidentLedger:
    """Of one healthy pod."""
    one = IncidentLedger({}, CountedTotals(), False, time.monotonic, time.time)
    one.on_pod_updated(given.pod("Running", given.running(), annotations={"port": "80"}))
    return one


async def observed(ledger: IncidentLedger, plugin: RewardPlugin) -> set[str]:
    """The qualities of the pod's type after a round."""
    await QualityObserver(lambda: ledger, 30.0, [plugin]).observe_all()
    return set(ledger.rewards["shop"].qualities) if "shop" in ledger.rewards else set()


async def test_its_costs_become_qualities_and_bad_names_are_left_out(ledger: IncidentLedger) -> None:
    assert await observed(ledger, reward(lambda _: {"frames": 3.0, "no name": 1.0})) == {"frames"}


@pytest.mark.parametrize(
    "costs",
    [
        lambda pod: {"frames": float(pod.labels["frames"])},
        lambda _: None,
        lambda _: {"frames": "many"},
        lambda _: {"frames": -1.0},
    ],
)
async def test_one_that_raises_or_returns_nonsense_changes_nothing(
    ledger: IncidentLedger, costs: Callable[[RunningPod], Mapping[str, float]]
) -> None:
    plugin = reward(costs)
    assert await observed(ledger, plugin) == set()
    assert plugin.problem.text


async def test_one_that_is_late_rests_until_its_pause_is_over_and_its_thread_has_ended(
    ledger: IncidentLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, released, now = list[RunningPod](), threading.Event(), [0.0]

    def hangs(pod: RunningPod) -> dict[str, float]:
        asked.append(pod)
        released.wait()
        return {"frames": 1.0}

    plugin = reward(hangs, lambda: now[0])
    monkeypatch.setattr(quality_observer, "PLUGIN_DEADLINE_SECONDS", 0.05)
    assert await observed(ledger, plugin) == set()
    assert "it rests for 5 s" in plugin.problem.text
    now[0] = FIRST_PAUSE_SECONDS + 1
    await observed(ledger, plugin)
    assert len(asked) == 1, "its thread still hangs"
    released.set()
    assert plugin._late is not None
    await plugin._late
    monkeypatch.setattr(quality_observer, "PLUGIN_DEADLINE_SECONDS", 30.0)
    assert await observed(ledger, plugin) == {"frames"}
    assert plugin.problem.text == ""
