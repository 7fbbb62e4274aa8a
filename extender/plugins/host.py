"""Keeps a process for each plugin that the policy names, and makes filters and scores of their answers."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np
from prometheus_client.core import Metric

from extender.plugins import process
from extender.plugins.process import Answer, Plugin, Unanswered
from extender.worker_pool import DECISION_DEADLINE_SECONDS
from leadsman.decision.decide import FILTERS, SCORES, FilterResult, ScoreResult, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.policy import PluginPolicy, Policy, ScorePluginPolicy
from leadsman.decision.view import Column
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.kube.names import REPORTING_EXTENDER
from leadsman.kube.objects import ObjectReference
from leadsman.plugin import FILTERS_GROUP, SCORES_GROUP
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

CHECK_SECONDS = 0.2
"""The policy, and whether a process ended, are looked at once in this time."""

Filter = Callable[[PodInfo, Sequence[str], DecisionInputs], FilterResult]
Score = Callable[[PodInfo, Sequence[str], DecisionInputs], ScoreResult]


class RemotePlugin:
    """Asks a filter or score of another package. A question that nobody asked ahead is asked when its turn comes and
    has its own time, as in a plan."""

    def __init__(self, plugin: Plugin) -> None:
        self.name, self._plugin = plugin.name, plugin
        self._asked: tuple[Future[Answer], Sequence[str], float] | None = None

    def ask(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs, began: float) -> None:
        """Asks about these nodes ahead. began: monotonic seconds from which the shared time of all plugins counts."""
        self._asked = self._plugin.ask(pod, nodes, inputs), nodes, began + process.ALL_PLUGINS_SECONDS

    def close(self) -> None:
        """Cancels the question: nobody wants the answer any more."""
        if self._asked:
            self._asked[0].cancel()

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()

    def _answer(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> tuple[Answer, Sequence[str]]:
        """Returns the answer and the nodes that it is about. Raises Unanswered."""
        if self._asked is None:
            self.ask(pod, nodes, inputs, time.monotonic())
        assert self._asked
        (question, about, end), self._asked = self._asked, None
        return self._plugin.wait_for(question, end), about


class RemoteFilter(RemotePlugin):
    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        try:
            (places, texts), about = self._answer(pod, nodes, inputs)
        except Unanswered as error:
            return self._without_answer(nodes, str(error))
        reasons, left = [Refusal(self.name, text) for text in texts], set(nodes)
        refused = ((about[at], reasons[int(places[at])]) for at in np.flatnonzero(~np.isnan(places)).tolist())
        return {node: reason for node, reason in refused if node in left}

    def _without_answer(self, nodes: Sequence[str], problem: str) -> Mapping[str, Refusal]:
        if not self._plugin.fails_closed:
            return {}
        return dict.fromkeys(nodes, Refusal(self.name, f"filter plugin {self.name} fails closed: {problem}"))


class PlanFilter(RemoteFilter):
    """Asks a filter of another package for a plan, about each pod and node once: a plan asks thousands of times, and
    what a plugin sees of a pod and a node stays the same meanwhile."""

    def __init__(self, plugin: Plugin) -> None:
        super().__init__(plugin)
        self._answers: dict[bytes, dict[str, Refusal | None]] = {}

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        answers = self._answers.setdefault(msgspec.msgpack.encode(process.pod_of_question(pod)), {})
        if unasked := CandidateNodes(node for node in nodes if node not in answers):
            refused = super().refusals(pod, unasked, inputs)
            answers.update({node: refused.get(node) for node in unasked})
        return {node: refusal for node in nodes if (refusal := answers[node]) is not None}


class RemoteScore(RemotePlugin):
    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        settings = self._plugin.settings
        assert isinstance(settings, ScorePluginPolicy)
        try:
            (values, _), _ = self._answer(pod, nodes, inputs)
        except Unanswered as error:
            return PluginScore(self.name, settings.weight, {}, neutral=f"{self.name}: {error}")
        known = ~np.isnan(values)
        if not known.any():
            return None if len(nodes) else PluginScore(self.name, settings.weight, {})
        names = nodes if known.all() else [nodes[at] for at in np.flatnonzero(known).tolist()]
        unknown = {nodes[at]: "the plugin gives no value" for at in np.flatnonzero(~known).tolist()}
        return PluginScore(self.name, settings.weight, Column(names, values[known]), unknown)


def judges_of_plan(plugins: Sequence[Plugin]) -> tuple[Filter, Score]:
    """Makes the filter and the score for all questions of a plan, deciding as an extender with these plugins does."""
    filters = [PlanFilter(each) for each in plugins if each.group == FILTERS_GROUP]
    scores = [RemoteScore(each) for each in plugins if each.group == SCORES_GROUP]
    return partial(filter_nodes, filters=(*FILTERS, *filters)), partial(score_nodes, scores=(*SCORES, *scores))


R = TypeVar("R", bound=RemotePlugin)


def named_plugins(policy: Policy) -> list[tuple[str, PluginPolicy]]:
    """Returns the group and settings of each filter and score of another package that counts."""
    scores = ((SCORES_GROUP, each) for each in policy.plugins.scores if each.weight)
    return [*((FILTERS_GROUP, each) for each in policy.plugins.filters), *scores]


class PluginHost:
    """Decides with the policy's plugins. `run` it as one task; close at the end.

    inputs: the newest, for the nodes that a new process is sent.
    on_change: called with its name, what follows and why, when a plugin goes off, and with "" when it answers again.
    """

    def __init__(
        self,
        policy: Callable[[], Policy],
        inputs: Callable[[], DecisionInputs],
        on_change: Callable[[str, str], None] | None = None,
    ) -> None:
        self._policy, self._inputs, self._on_change = policy, inputs, on_change
        self._plugins: dict[tuple[str, PluginPolicy], Plugin] = {}
        self._problems: dict[tuple[str, str], ProblemLog] = {}

    def filter_nodes(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> FilterResult:
        """Filters by our own filters while the plugins work, and then by the plugins."""
        candidates = CandidateNodes.of(nodes)
        with self._asking(RemoteFilter, FILTERS_GROUP, pod, candidates, inputs) as remote:
            return filter_nodes(pod, candidates, inputs, (*FILTERS, *remote))

    def score_nodes(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> ScoreResult:
        """Scores by our own scores while the plugins work, and then by the plugins."""
        candidates = CandidateNodes.of(nodes)
        with self._asking(RemoteScore, SCORES_GROUP, pod, candidates, inputs) as remote:
            return score_nodes(pod, candidates, inputs, (*SCORES, *remote))

    def fails_closed(self, policy: Policy) -> bool:
        """Tells whether one of the policy's filters refuses every node while it gives no answer."""
        return any((self._plugins.get(key) or Plugin(*key)).fails_closed for key in named_plugins(policy))

    def judges_of_plan(self) -> tuple[Filter, Score]:
        """Returns the filter and the score for all questions of one plan."""
        return judges_of_plan([plugin for key in named_plugins(self._policy()) if (plugin := self._plugins.get(key))])

    @contextlib.contextmanager
    def _asking(
        self, kind: Callable[[Plugin], R], group: str, pod: PodInfo, nodes: CandidateNodes, inputs: DecisionInputs
    ) -> Iterator[Sequence[R]]:
        """Asks all plugins of the group before any answer is read."""
        named = [key for key in named_plugins(inputs.policy) if key[0] == group]
        # What the policy names since a moment is starting, and a filter may want to be closed until then.
        asked = [kind(self._plugins.get(key) or Plugin(*key)) for key in named]
        now = time.monotonic()
        began = (
            inputs.now if now - inputs.now < DECISION_DEADLINE_SECONDS else now
        )  # what would help in an old decision
        for each in asked:
            each.ask(pod, nodes, inputs, began)
        try:
            yield asked
        finally:
            for each in asked:
                each.close()

    async def run(self) -> None:
        """Keeps the processes that the policy names, until cancelled."""
        while True:
            self.reconcile()
            await asyncio.sleep(CHECK_SECONDS)

    def reconcile(self) -> None:
        """Starts what is missing, and stops what no policy names any more."""
        named = named_plugins(self._policy())
        for key in self._plugins.keys() - set(named):
            self._plugins.pop(key).stop()
        for key in named:
            plugin = self._plugins.get(key)
            if plugin is None:
                plugin = self._plugins[key] = Plugin(*key)
            self._report(plugin)
            if plugin.wants_start:
                plugin.start(self._inputs())

    def close(self) -> None:
        for plugin in self._plugins.values():
            plugin.stop()
        self._plugins.clear()

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Returns the running plugins that the policy names."""
        return list(self._plugins.values())

    def families(self) -> Iterator[Metric]:
        """Makes the metrics of all plugins."""
        plugins = self.plugins
        active, calls, failures = dict[str, bool](), Counter[str](), Counter[str]()
        for each in plugins:  # a filter and a score may share a name
            answers = each.is_active and each.failures_in_a_row < process.FAILURES_UNTIL_OFF
            active[each.name] = active.get(each.name, True) and answers
            calls[each.name] += each.calls
            failures[each.name] += each.failures
        # A minute after it went off it runs again, which says nothing where no pod is placed meanwhile.
        help_text = "1 while the plugin answers, 0 while it is starting, or off and has not answered since."
        yield gauge("leadsman_plugin_active", help_text, active, "plugin")
        yield counter("leadsman_plugin_calls", "Questions to the plugin.", calls, "plugin")
        failed = "Answers of the plugin that were late or of no use, and processes that ended."
        yield counter("leadsman_plugin_failures", failed, failures, "plugin")

    def _report(self, plugin: Plugin) -> None:
        begins = f"plugin {plugin.name} failed three times in a row, and is off for a minute"
        ends = f"plugin {plugin.name} answers again"
        problem = self._problems.setdefault((plugin.group, plugin.name), ProblemLog(_log, begins, ends, logging.ERROR))
        was_off = bool(problem.text)
        if plugin.is_off:
            meanwhile = "it refuses every node" if plugin.fails_closed else "decisions go on without it"
            problem.report(f"{meanwhile}: {plugin.problem}")
        elif plugin.is_active and not plugin.failures_in_a_row:
            problem.clear()
        if self._on_change and bool(problem.text) is not was_off:
            self._on_change(plugin.name, problem.text)


# Writes Events when a plugin goes off or answers again, on the extender's own pod: each replica has its plugins.

EVENTS_PER_SECOND, EVENTS_AT_ONCE = 1 / 60, 10
"""A plugin that goes off each minute must not fill the API server, which keeps an Event for an hour."""


class PluginEvents:
    """Writes Events about plugins; `writer.run` it as one task. own_pod: what they are about."""

    def __init__(self, client: ApiClient, own_pod: ObjectReference) -> None:
        self._own_pod, self._rate = own_pod, TokenBucket(EVENTS_PER_SECOND, EVENTS_AT_ONCE)
        self.writer = EventWriter(client, TokenBucket(1.0, 10), own_pod.name, controller=REPORTING_EXTENDER)

    def plugin_changed(self, name: str, problem: str) -> None:
        """Records that a plugin went off or is back. problem: what follows, and why; "": it answers again."""
        if not self._rate.try_take():
            return
        if problem:
            note = f"plugin {name} is off for a minute, and {problem}"
            self.writer.record(self._own_pod, "PluginOff", note, "Score", warning=True)
        else:
            self.writer.record(self._own_pod, "PluginAnswers", f"plugin {name} answers again", "Score")
