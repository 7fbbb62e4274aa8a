"""A decision within its deadline, or the neutral one.

Neutral: all nodes pass, all scores are equal. So a plugin that is slow or broken costs quality, not scheduling. The
one exception is a pod with delay bounds, unless it or the policy accepts what is not known (`estimate: accept`):
dropping its bound would break a promise, so all nodes are refused, as unresolvable, and nobody is evicted in vain.
So it is with a pod whose telemetry policy fails closed.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, structs

from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.probe_on_demand import ProbeOnDemand, RequestProbes
from extender.worker_pool import DeadlineExceeded, WorkerPool
from leadsman.decision.decide import NEUTRAL_SCORE, FilterResult, ScoreResult, filter_nodes, score_nodes
from leadsman.decision.delay import bounds
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal
from leadsman.decision.policy import EstimateMode, Policy
from leadsman.decision.telemetry import pod_policy
from leadsman.sources.input_sources import InputSources

T = TypeVar("T")

_log = logging.getLogger(__name__)


class DecisionCore(Struct, frozen=True):
    """The decision core's two questions; tests put slow and broken ones here."""

    filter_nodes: Callable[[PodInfo, Sequence[str], DecisionInputs], FilterResult] = filter_nodes
    score_nodes: Callable[[PodInfo, Sequence[str], DecisionInputs], ScoreResult] = score_nodes


DEFAULT_CORE = DecisionCore()

SNAPSHOT_REUSE_SECONDS = 1.0
"""kube-scheduler asks for scores a few milliseconds after it filtered."""

SCHEDULING_ATTEMPT_SECONDS = 5.0
"""kube-scheduler tries preemption right after it filtered: an older entry is of another attempt."""


class Decider:
    """The core's answers, each recorded in the journal."""

    def __init__(
        self,
        sources: InputSources,
        *,
        journal: Journal,
        metrics: ExtenderMetrics,
        workers: WorkerPool,
        core: DecisionCore = DEFAULT_CORE,
        ask: RequestProbes | None = None,
    ) -> None:
        """ask: told which pairs to measure, after the answer."""
        self.journal, self.workers = journal, workers
        self._sources, self._metrics, self._core = sources, metrics, core
        self._probe_on_demand = ProbeOnDemand(ask, workers)
        self._faults: dict[str, str] = {}

    async def filter(self, pod: PodInfo, nodes: tuple[str, ...]) -> FilterResult:
        facts = self._sources.current_inputs()
        if pod_policy.is_policy_missing(pod, facts):
            self._metrics.missing_policies.inc()
        judged = await self._filter_result("filter", pod, nodes, facts)
        self.journal.record_filter(pod, nodes, judged, facts)
        self._probe_on_demand.request_after_filter(pod, judged, facts)
        return judged

    async def prioritize(self, pod: PodInfo, nodes: tuple[str, ...]) -> Mapping[str, int]:
        facts = self._filter_inputs(pod)
        ranked = await self._run("prioritize", lambda: self._core.score_nodes(pod, nodes, facts))
        if isinstance(ranked, DecisionFault):
            self._metrics.count_decision("prioritize", "neutral", ranked.reason)
            ranked = ScoreResult((), dict.fromkeys(nodes, NEUTRAL_SCORE), ranked.message)
        else:
            self._metrics.count_decision("prioritize", "equal" if ranked.neutral else "ranked")
        self.journal.record_prioritize(pod, nodes, ranked, facts)
        return ranked.scores

    async def preempt(self, pod: PodInfo, nodes: tuple[str, ...]) -> FilterResult:
        """As filter. Recorded unless this attempt's filter call was: it may have gone to another replica."""
        facts = self._sources.current_inputs()
        judged = await self._filter_result("preempt", pod, nodes, facts)
        if not self._just_filtered(pod, facts.now):
            self.journal.record_filter(pod, nodes, judged, facts)
        return judged

    def _just_filtered(self, pod: PodInfo, now: float) -> bool:
        before = self.journal.get(pod.namespace, pod.name)
        same = before is not None and before.filter_result is not None and before.pod.uid == pod.uid
        return before is not None and same and now - before.decided_at < SCHEDULING_ATTEMPT_SECONDS

    def _filter_inputs(self, pod: PodInfo) -> DecisionInputs:
        """The snapshot that the pod was just filtered on, so that one decision has one ground. Freshness is new."""
        facts, before = self._sources.current_inputs(), self.journal.get(pod.namespace, pod.name)
        if (
            before
            and before.filter_inputs
            and before.pod.uid == pod.uid
            and facts.now - before.decided_at < SNAPSHOT_REUSE_SECONDS
        ):
            return structs.replace(facts, snapshot=before.filter_inputs.snapshot)
        return facts

    async def _filter_result(
        self, verb: str, pod: PodInfo, nodes: tuple[str, ...], facts: DecisionInputs
    ) -> FilterResult:
        judged = await self._run(verb, lambda: self._core.filter_nodes(pod, nodes, facts))
        if isinstance(judged, DecisionFault):
            self._metrics.count_decision(verb, "neutral", judged.reason)
            return _without_plugins(pod, nodes, facts, judged.message)
        result = "kept" if not judged.refused else "restricted" if judged.kept else "refused"
        self._metrics.count_decision(verb, result, next((refusal.plugin for refusal in judged.refused.values()), ""))
        return judged

    async def _run(self, verb: str, work: Callable[[], T]) -> "T | DecisionFault":
        """What `work` returns, or what went wrong, logged when that changes."""
        try:
            result: T | DecisionFault = await self.workers.run(work)
        except DeadlineExceeded as error:
            result = DecisionFault("overran", f"decision overran {self.workers.deadline_seconds * 1000:g} ms")
            self._log_on_change(verb, "overran", error)
        except Exception as error:  # A plugin's fault, whatever it is, must not become the scheduler's.
            result = DecisionFault("fault", "decision failed")
            self._log_on_change(verb, f"{type(error).__name__}: {error}", error)
        else:
            self._log_on_change(verb, "", None)
        return result

    def _log_on_change(self, verb: str, fault: str, error: Exception | None) -> None:
        if self._faults.get(verb, "") == fault:
            return
        self._faults[verb] = fault
        if error:
            _log.error("%s: %s; answers are neutral until this ends", verb, fault, exc_info=error)
        else:
            _log.info("%s: decisions are made again", verb)


class DecisionFault(Struct, frozen=True):
    """reason: the metric's word. text: the same for a reader."""

    reason: str
    message: str


def _without_plugins(pod: PodInfo, nodes: tuple[str, ...], facts: DecisionInputs, why: str) -> FilterResult:
    if _has_strict_bound(pod, facts.policy) or pod_policy.fails_closed(pod, facts):
        return FilterResult((), dict.fromkeys(nodes, Refusal("deadline", why)))
    return FilterResult(nodes, {})


def _has_strict_bound(pod: PodInfo, policy: Policy) -> bool:
    """Whether the pod has a delay bound that is not to be waived; one that cannot be understood is not."""
    try:
        wanted = bounds.parse_bounds(pod)
    except bounds.BadBound:
        return True
    return any((bound.estimate or policy.delay.estimate) is not EstimateMode.ACCEPT for bound in wanted)
