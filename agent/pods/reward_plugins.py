"""Plugins that observe qualities of pods: `leadsman.rewards` entry points, each a function of a pod.

    [options.entry_points]
    leadsman.rewards =
        frames = myrewards:frames

    def frames(pod: leadsman.kube.objects.Pod) -> Mapping[str, float]: ...

It returns costs by quality, where lower is better, and an empty mapping for a pod that it does not observe. It is
called in a thread for every healthy pod each `observe_seconds`, one pod after another, and must return within 2 s.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from leadsman.kube.objects import Pod
from leadsman.runtime.problem_log import ProblemLog

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "leadsman.rewards"
DEADLINE_SECONDS = 2.0

CostFunction = Callable[[Pod], Mapping[str, float]]


class RewardPlugin:
    """One installed plugin.

    problem: why its last call gave no costs.
    timed_out: a call exceeded the deadline. It is not called again, since its thread may never end.
    """

    def __init__(self, name: str, cost_function: CostFunction) -> None:
        self.name, self._cost_function, self.timed_out = name, cost_function, False
        self.problem = ProblemLog(log, f"reward plugin {name} gave no costs", f"reward plugin {name} gives costs again")

    async def observe(self, pod: Pod) -> Mapping[str, float]:
        if self.timed_out:
            return {}
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                costs = await asyncio.to_thread(self._cost_function, pod)
                observed = {str(name): float(cost) for name, cost in costs.items()}
        except TimeoutError:
            self.timed_out = True
            self.problem.report(
                f"timed out after {DEADLINE_SECONDS:g} s; the agent does not call it again until restart"
            )
        except Exception as error:  # A stranger's code: whatever it raises must not end the agent.
            self.problem.report(f"{type(error).__name__}: {error}")
        else:
            self.problem.clear()
            return observed
        return {}


def load_plugins() -> list[RewardPlugin]:
    """The installed plugins that can be loaded. The others are logged."""
    loaded = (_load(point) for point in entry_points(group=ENTRY_POINT_GROUP))
    return [plugin for plugin in loaded if plugin is not None]


def _load(point: EntryPoint) -> RewardPlugin | None:
    try:
        return RewardPlugin(point.name, point.load())
    except Exception as error:  # As above.
        log.warning("reward plugin %s cannot be loaded: %s: %s", point.name, type(error).__name__, error)
        return None
