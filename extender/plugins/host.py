"""The plugins that the policy names: keeps a process for each, and makes filters and scores of what they answer."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from extender.plugins.events import PluginChanged, no_events
from extender.plugins.process import Plugin, Round, Unanswered, pod_of_question
from extender.plugins.worker import Reply
from leadsman.decision.decide import FILTERS, SCORES, FilterResult, ScoreResult, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.policy import FilterPluginPolicy, OnFailure, PluginPolicy, Policy, ScorePluginPolicy
from leadsman.decision.view import Column, FloatArray
from leadsman.plugin import FILTERS_GROUP, REFUSE, SCORES_GROUP
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

CHECK_SECONDS = 0.2
"""Between two looks at the policy and at processes that ended."""

Filter = Callable[[PodInfo, Sequence[str], DecisionInputs], FilterResult]
Score = Callable[[PodInfo, Sequence[str], DecisionInputs], ScoreResult]

_UNKNOWN = "the plugin gives no value"


class PluginState(Struct, frozen=True):
    """How a plugin does. group: of its entry point. state: active, starting or off. problem: its last failure's."""

    group: str
    name: str
    state: str
    problem: str
    calls: int
    failures: int


class RemotePlugin:
    """What a filter and a score of another package share inside a decision. asked: the decision's round."""

    def __init__(self, plugin: Plugin, asked: Round) -> None:
        self.name, self._plugin, self._asked = plugin.name, plugin, asked

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()

    def _unusable(self, problem: str) -> Unanswered:
        """Counts a reply of no use as a failure."""
        with self._plugin.lock:
            self._plugin.fail(problem)
        return Unanswered(problem)


class RemoteFilter(RemotePlugin):
    """A filter in a process of its own, which has been asked about all candidates."""

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        try:
            reply = self._asked.reply(self._plugin)
            places = self._places(reply)
        except Unanswered as error:
            return self._without_answer(nodes, str(error))
        reasons, left = [Refusal(self.name, reason) for reason in reply.reasons], set(nodes)
        asked = self._asked.nodes
        refused = ((asked[at], places[at]) for at in np.flatnonzero(places >= 0).tolist())
        return {node: reasons[place] for node, place in refused if node in left}

    def _places(self, reply: Reply) -> NDArray[np.int16]:
        """The place of each candidate's reason; negative: it passes."""
        count = len(self._asked.nodes)
        if len(reply.refused) != 2 * count:
            raise self._unusable(f"{len(reply.refused)} bytes of refusals for {count} nodes")
        places = np.frombuffer(reply.refused, np.int16)
        if count and places.max() >= len(reply.reasons):
            raise self._unusable("a refusal without a reason")
        self._plugin.succeed()
        return places

    def _without_answer(self, nodes: Sequence[str], problem: str) -> Mapping[str, Refusal]:
        settings = self._plugin.settings
        assert isinstance(settings, FilterPluginPolicy)
        if settings.on_failure is OnFailure.PLUGIN:
            fails_closed = self._plugin.on_failure == REFUSE
        else:
            fails_closed = settings.on_failure is OnFailure.REFUSE
        if not fails_closed:
            return {}
        return dict.fromkeys(nodes, Refusal(self.name, f"filter plugin {self.name} fails closed: {problem}"))


class PlanFilter:
    """A filter of another package as a plan asks it: about each pod and node once, since a plan asks thousands of times
    and what a plugin sees of a pod and a node stays while the plan is made."""

    def __init__(self, plugin: Plugin, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._plugin, self._clock = plugin.name, plugin, clock
        self._answers: dict[bytes, dict[str, Refusal | None]] = {}

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        answers = self._answers.setdefault(msgspec.msgpack.encode(pod_of_question(pod)), {})
        if unasked := CandidateNodes(node for node in nodes if node not in answers):
            # A plan takes longer than a decision: each question has its own time.
            questions = Round([self._plugin], pod, unasked, inputs, self._clock, self._clock())
            try:
                refused = RemoteFilter(self._plugin, questions).refusals(pod, unasked, inputs)
            finally:
                questions.close()
            answers.update({node: refused.get(node) for node in unasked})
        return {node: refusal for node in nodes if (refusal := answers[node]) is not None}

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()


class RemoteScore(RemotePlugin):
    """A score in a process of its own, which has been asked."""

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        settings = self._plugin.settings
        assert isinstance(settings, ScorePluginPolicy)
        try:
            values = self._values(self._asked.reply(self._plugin), len(nodes))
        except Unanswered as error:
            return PluginScore(self.name, settings.weight, {}, neutral=f"{self.name}: {error}")
        known = ~np.isnan(values)
        if known.all():
            return PluginScore(self.name, settings.weight, Column(nodes, values))
        if not known.any():
            return None
        names = [nodes[at] for at in np.flatnonzero(known).tolist()]
        unknown = dict.fromkeys([nodes[at] for at in np.flatnonzero(~known).tolist()], _UNKNOWN)
        return PluginScore(self.name, settings.weight, Column(names, values[known]), unknown)

    def _values(self, reply: Reply, count: int) -> FloatArray:
        """NaN where the plugin knows nothing."""
        if len(reply.values) != 8 * count:
            raise self._unusable(f"{len(reply.values)} bytes of values for {count} nodes")
        values = np.frombuffer(reply.values, np.float64)
        if np.isinf(values).any():
            raise self._unusable("a score is infinite")
        self._plugin.succeed()
        return values


class PlanScore:
    """A score of another package as a plan asks it: each question has its own time."""

    def __init__(self, plugin: Plugin, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._plugin, self._clock = plugin.name, plugin, clock

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        questions = Round([self._plugin], pod, nodes, inputs, self._clock, self._clock())
        try:
            return RemoteScore(self._plugin, questions).score(pod, nodes, inputs)
        finally:
            questions.close()

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()


def judges_of_plan(plugins: Sequence[Plugin], clock: Callable[[], float] = time.monotonic) -> tuple[Filter, Score]:
    """Filters and scores as an extender does, with these plugins, for all questions of one plan."""
    filters = [PlanFilter(each, clock) for each in plugins if each.group == FILTERS_GROUP]
    scores = [PlanScore(each, clock) for each in plugins if each.group == SCORES_GROUP]
    return partial(filter_nodes, filters=(*FILTERS, *filters)), partial(score_nodes, scores=(*SCORES, *scores))


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
        self._plugins: dict[tuple[str, PluginPolicy], Plugin] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._problems: dict[str, ProblemLog] = {}

    def filter_nodes(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> FilterResult:
        """As decide.filter_nodes, and then by the plugins, which all work meanwhile."""
        asked, plugins = CandidateNodes.of(nodes), self._kept_filters(inputs.policy)
        questions = Round(plugins, pod, asked, inputs, self._clock)
        try:
            remote = [RemoteFilter(plugin, questions) for plugin in plugins]
            return filter_nodes(pod, asked, inputs, (*FILTERS, *remote))
        finally:
            questions.close()

    def judges_of_plan(self) -> tuple[Filter, Score]:
        """As `filter_nodes` and `score_nodes`, for all questions of one plan."""
        plugins = self._policy().plugins
        scores = self._kept(SCORES_GROUP, [each for each in plugins.scores if each.weight])
        return judges_of_plan([*self._kept_filters(self._policy()), *scores], self._clock)

    def score_nodes(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> ScoreResult:
        """As decide.score_nodes, with the plugins, which all work meanwhile."""
        weighted = [settings for settings in inputs.policy.plugins.scores if settings.weight]
        asked, plugins = CandidateNodes.of(nodes), self._kept(SCORES_GROUP, weighted)
        questions = Round(plugins, pod, asked, inputs, self._clock)
        try:
            remote = [RemoteScore(plugin, questions) for plugin in plugins]
            return score_nodes(pod, asked, inputs, (*SCORES, *remote))
        finally:
            questions.close()

    def _kept_filters(self, policy: Policy) -> list[Plugin]:
        return self._kept(FILTERS_GROUP, policy.plugins.filters)

    def _kept(self, group: str, named: Sequence[PluginPolicy]) -> list[Plugin]:
        """Returns those of the plugins that the host has seen in the policy."""
        return [plugin for each in named if (plugin := self._plugins.get((group, each)))]

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
        for key in named:
            plugin = self._plugins.get(key)
            if plugin is None:
                plugin = self._plugins[key] = Plugin(*key, self._clock)
            plugin.reap()
            self._report(plugin)
            if plugin.wants_start:
                self._start(plugin)

    def close(self) -> None:
        for plugin in self._plugins.values():
            plugin.stop()
        self._plugins.clear()

    def states(self) -> Sequence[PluginState]:
        """Tells how each plugin does that the policy names."""
        states = []
        for plugin in list(self._plugins.values()):
            off = "off" if plugin.health.is_off(self._clock()) else "starting"
            state, problem = "active" if plugin.is_active else off, plugin.health.problem
            states.append(PluginState(plugin.group, plugin.name, state, problem, plugin.calls, plugin.failures))
        return states

    def families(self) -> Iterator[Metric]:
        """Makes the metrics of all plugins."""
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
            active.add_metric([plugin.name], plugin.is_active)
            calls.add_metric([plugin.name], plugin.calls)
            failures.add_metric([plugin.name], plugin.failures)
        yield from (active, calls, failures)

    def _start(self, plugin: Plugin) -> None:
        plugin.start()
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(plugin.warm_up, self._inputs()))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _report(self, plugin: Plugin) -> None:
        problem = self._problems.setdefault(
            plugin.name,
            ProblemLog(
                _log,
                f"plugin {plugin.name} failed three times in a row; for a minute decisions go on without it",
                f"plugin {plugin.name} answers again",
                logging.ERROR,
            ),
        )
        was_off = bool(problem.text)
        if plugin.health.is_off(self._clock()):
            problem.report(plugin.health.problem)
        elif plugin.is_active and not plugin.health.failures:
            problem.clear()
        if bool(problem.text) is not was_off:
            self._on_change(plugin.name, problem.text)
