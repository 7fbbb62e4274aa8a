"""The plugins that the policy names: keeps a process for each, and makes filters and scores of them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from extender.plugins.channel import PluginFailed, WorkerCommand
from extender.plugins.events import PluginChanged, no_events
from extender.plugins.remote_plugin import PendingAnswer, PluginUnavailable, RemotePlugin, refusal_places, score_values
from leadsman.decision.columns import Column
from leadsman.decision.decide import FilterResult, ScoreResult, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.plugins import FILTERS, SCORES
from leadsman.decision.policy import FilterPluginPolicy, OnFailure, PluginPolicy, Policy, ScorePluginPolicy
from leadsman.plugin import FILTERS_GROUP, REFUSE, SCORES_GROUP
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

CHECK_SECONDS = 0.2
"""Between two looks at the policy and at processes that ended."""

A = TypeVar("A")

_UNKNOWN = "the plugin gives no value"


class PluginState(Struct, frozen=True):
    """How a plugin does. group: of its entry point. state: active, starting or off. problem: its last failure's."""

    group: str
    name: str
    state: str
    problem: str
    calls: int
    failures: int


class RemoteFilter:
    """A filter in a process of its own, that has been asked about all candidates."""

    def __init__(self, pending: PendingAnswer, settings: FilterPluginPolicy) -> None:
        self.name, self._pending, self._settings = settings.name, pending, settings

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        asked, plugin = self._pending.nodes, self._pending.plugin
        try:
            answer = self._pending.read()
            places = _used(plugin, lambda: refusal_places(answer, len(asked)))
        except (PluginFailed, PluginUnavailable) as error:
            return self._without_answer(nodes, str(error))
        reasons, left = [Refusal(self.name, reason) for reason in answer.reasons], set(nodes)
        refused = ((asked[at], places[at]) for at in np.flatnonzero(places >= 0).tolist())
        return {node: reasons[place] for node, place in refused if node in left}

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()

    def _without_answer(self, nodes: Sequence[str], problem: str) -> Mapping[str, Refusal]:
        on_failure = self._settings.on_failure
        if on_failure is OnFailure.PLUGIN:
            fails_closed = self._pending.plugin.on_failure == REFUSE
        else:
            fails_closed = on_failure is OnFailure.REFUSE
        if not fails_closed:
            return {}
        return dict.fromkeys(nodes, Refusal(self.name, f"filter plugin {self.name} fails closed: {problem}"))


class RemoteScore:
    """A score in a process of its own, that has been asked."""

    def __init__(self, pending: PendingAnswer, settings: ScorePluginPolicy) -> None:
        self.name, self._pending, self._weight = settings.name, pending, settings.weight

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        try:
            answer = self._pending.read()
            values = _used(self._pending.plugin, lambda: score_values(answer, len(nodes)))
        except (PluginFailed, PluginUnavailable) as error:
            return PluginScore(self.name, self._weight, {}, neutral=f"{self.name}: {error}")
        known = ~np.isnan(values)
        if known.all():
            return PluginScore(self.name, self._weight, Column(nodes, values))
        if not known.any():
            return None
        names = [nodes[at] for at in np.flatnonzero(known).tolist()]
        unknown = dict.fromkeys([nodes[at] for at in np.flatnonzero(~known).tolist()], _UNKNOWN)
        return PluginScore(self.name, self._weight, Column(names, values[known]), unknown)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()


def _used(plugin: RemotePlugin, read: Callable[[], A]) -> A:
    """What is read of an answer; one that cannot be used counts as a failure."""
    try:
        values = read()
    except PluginFailed as error:
        plugin.reject(str(error))
        raise
    plugin.accept()
    return values


class PluginHost:
    """Decides with the policy's plugins. `run` it as one task; close at the end.

    inputs: the newest, for the nodes that a new process is sent.
    on_change: called when a plugin goes off, and when it answers again.
    """

    def __init__(
        self,
        policy: Callable[[], Policy],
        inputs: Callable[[], DecisionInputs],
        clock: Callable[[], float] = time.monotonic,
        on_change: PluginChanged = no_events,
    ) -> None:
        self._policy, self._inputs, self._clock, self._on_change = policy, inputs, clock, on_change
        self._plugins: dict[tuple[str, PluginPolicy], RemotePlugin] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._problems: dict[str, ProblemLog] = {}

    def filter_nodes(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> FilterResult:
        """As decide.filter_nodes, and then by the plugins, which all work meanwhile."""
        asked = CandidateNodes.of(nodes)
        with contextlib.ExitStack() as stack:
            remote = [
                RemoteFilter(pending, settings)
                for settings in inputs.policy.plugins.filters
                for pending in self._ask(FILTERS_GROUP, settings, pod, asked, inputs, stack)
            ]
            return filter_nodes(pod, asked, inputs, (*FILTERS, *remote))

    def score_nodes(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> ScoreResult:
        """As decide.score_nodes, with the plugins, which all work meanwhile."""
        asked = CandidateNodes.of(nodes)
        with contextlib.ExitStack() as stack:
            remote = [
                RemoteScore(pending, settings)
                for settings in inputs.policy.plugins.scores
                if settings.weight
                for pending in self._ask(SCORES_GROUP, settings, pod, asked, inputs, stack)
            ]
            return score_nodes(pod, asked, inputs, (*SCORES, *remote))

    def _ask(
        self,
        group: str,
        settings: PluginPolicy,
        pod: PodInfo,
        nodes: CandidateNodes,
        inputs: DecisionInputs,
        stack: contextlib.ExitStack,
    ) -> Iterator[PendingAnswer]:
        """None before the host has seen the policy. stack: closes what is not read."""
        plugin = self._plugins.get((group, settings))
        if plugin is not None:
            pending = plugin.ask(pod, nodes, inputs)
            stack.callback(pending.close)
            yield pending

    async def run(self) -> None:
        """Keeps the processes that the policy names, until cancelled."""
        while True:
            self.reconcile()
            await asyncio.sleep(CHECK_SECONDS)

    def reconcile(self) -> None:
        """Starts what is missing, and stops what no policy names any more."""
        plugins = self._policy().plugins
        named = [
            *((FILTERS_GROUP, each) for each in plugins.filters),
            *((SCORES_GROUP, each) for each in plugins.scores),
        ]
        for key in self._plugins.keys() - set(named):
            self._plugins.pop(key).stop()
        for group, settings in named:
            plugin = self._plugins.get((group, settings))
            if plugin is None:
                command = WorkerCommand(group, settings.name, settings.memory_mib << 20)
                plugin = self._plugins[group, settings] = RemotePlugin(
                    command, settings.deadline_ms / 1000, self._clock
                )
            plugin.reap()
            self._report(plugin)
            if plugin.wants_start:
                self._start(plugin)

    def close(self) -> None:
        for plugin in self._plugins.values():
            plugin.stop()
        self._plugins.clear()

    def states(self) -> Sequence[PluginState]:
        """Of all plugins that the policy names."""
        states = []
        for (group, _), plugin in list(self._plugins.items()):
            off = "off" if plugin.health.is_off(self._clock()) else "starting"
            state = "active" if plugin.is_active else off
            problem = plugin.health.problem
            states.append(PluginState(group, plugin.command.name, state, problem, plugin.calls, plugin.failures))
        return states

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        active = GaugeMetricFamily(
            "leadsman_plugin_active", "1 while the plugin answers, 0 while it is off or starting.", labels=["plugin"]
        )
        calls = CounterMetricFamily("leadsman_plugin_calls", "Questions to the plugin.", labels=["plugin"])
        failures = CounterMetricFamily(
            "leadsman_plugin_failures",
            "Answers of the plugin that were late or of no use, and processes that ended.",
            labels=["plugin"],
        )
        for plugin in list(self._plugins.values()):
            active.add_metric([plugin.command.name], plugin.is_active)
            calls.add_metric([plugin.command.name], plugin.calls)
            failures.add_metric([plugin.command.name], plugin.failures)
        yield from (active, calls, failures)

    def _start(self, plugin: RemotePlugin) -> None:
        plugin.start()
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(plugin.warm_up, self._inputs()))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _report(self, plugin: RemotePlugin) -> None:
        name = plugin.command.name
        problem = self._problems.setdefault(
            name,
            ProblemLog(
                _log,
                f"plugin {name} failed three times in a row; it is off for a minute, and decisions go on without it",
                f"plugin {name} answers again",
                logging.ERROR,
            ),
        )
        was_off = bool(problem.text)
        if plugin.health.is_off(self._clock()):
            problem.report(plugin.health.problem)
        elif plugin.is_active and not plugin.health.failures:
            problem.clear()
        if bool(problem.text) is not was_off:
            self._on_change(name, problem.text)
