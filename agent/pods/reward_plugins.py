"""Rewards of other packages: how well a pod runs, by their own measure.

A plugin is asked about every healthy pod each `observe_seconds`, one pod after another, in a thread that the agent does
not wait for when it is late: then it rests, as a slow collector does.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from threading import Thread

from agent.quarantine import Quarantine, after_overrun, is_over
from leadsman.kube.objects import Pod
from leadsman.plugin import REWARDS_GROUP, Reward, RunningPod
from leadsman.plugin_loading import BadPlugin, load_plugin
from leadsman.runtime.problem_log import ProblemLog

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 2.0


class _Call:
    """One call in a thread of its own, which does not hold up the process's exit."""

    def __init__(self, plugin: Reward, pod: RunningPod) -> None:
        self._loop, self._result = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        self.thread = Thread(target=self._work, args=(plugin, pod), name="reward plugin", daemon=True)
        self.thread.start()

    async def costs(self, deadline_seconds: float) -> Mapping[str, float]:
        """TimeoutError; and whatever the plugin raises."""
        async with asyncio.timeout(deadline_seconds):
            observed: Mapping[str, float] = await self._result
        return observed

    def _work(self, plugin: Reward, pod: RunningPod) -> None:
        try:
            costs = {str(name): float(cost) for name, cost in plugin.costs(pod).items()}
            wrong = [f"{name!r} costs {cost:g}" for name, cost in costs.items() if not 0.0 < cost < math.inf]
            if wrong:
                raise BadPlugin(f"{wrong[0]}; a cost is a number above 0")
        except Exception as error:  # A stranger's code: whatever it raises must not end the agent.
            self._settle(self._result.set_exception, error)
        else:
            self._settle(self._result.set_result, costs)

    def _settle(self, settle: Callable[..., None], outcome: object) -> None:
        def settled() -> None:
            if not self._result.done():
                settle(outcome)

        with contextlib.suppress(RuntimeError):  # The loop ended while the plugin hung: nobody waits.
            self._loop.call_soon_threadsafe(settled)


class RewardPlugin:
    """One loaded plugin. problem: why its last call gave no costs. clock: monotonic seconds."""

    def __init__(self, name: str, plugin: Reward, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._plugin, self._clock = name, plugin, clock
        self.problem = ProblemLog(log, f"reward plugin {name} gave no costs", f"reward plugin {name} gives costs again")
        self._quarantine: Quarantine | None = None
        self._late: Thread | None = None

    async def observe(self, pod: Pod) -> Mapping[str, float]:
        """Its costs; none while it rests, or when it fails."""
        is_running = self._late is not None and self._late.is_alive()
        if self._quarantine and not is_over(self._quarantine, self._clock(), is_running):
            return {}
        began, call = self._clock(), _Call(self._plugin, _running_pod(pod))
        try:
            costs = await call.costs(DEADLINE_SECONDS)
        except TimeoutError:
            self._late, self._quarantine = call.thread, after_overrun(self._quarantine, began, self._clock())
            pause = self._quarantine.not_before_seconds - self._clock()
            self.problem.report(
                f"it took more than {DEADLINE_SECONDS:g} s; it rests for {pause:.0f} s, and until its thread ends",
                kind="late",
            )
            return {}
        except Exception as error:
            self.problem.report(f"{type(error).__name__}: {error}")
            return {}
        self._quarantine = None
        self.problem.clear()
        return costs


def _running_pod(pod: Pod) -> RunningPod:
    metadata = pod.metadata
    return RunningPod(
        metadata.namespace, metadata.name, metadata.uid, metadata.labels, metadata.annotations, pod.status.pod_ip
    )


def reward_plugins(names: Collection[str]) -> list[RewardPlugin]:
    """These plugins, as far as they can be loaded. The others are logged."""
    loaded = (_load(name) for name in names)
    return [plugin for plugin in loaded if plugin is not None]


def _load(name: str) -> RewardPlugin | None:
    try:
        return RewardPlugin(name, load_plugin(REWARDS_GROUP, name))
    except Exception as error:  # As above.
        log.error("reward plugin %s cannot be loaded: %s: %s", name, type(error).__name__, error)
        return None
