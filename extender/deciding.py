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

from decision import bounds
from decision.decide import NEUTRAL, Judged, Ranked, judge, rank
from decision.model import Facts, Pod, Refusal
from decision.policy import Estimate, Policy
from decision.telemetry import link
from extender.asking import Ask, Asking
from extender.journal import Journal
from extender.metrics import Metrics
from extender.workers import Overran, Workers
from facts.sources import Sources

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Core(Struct, frozen=True):
    """The decision core's two questions; tests put slow and broken ones here."""

    judge: Callable[[Pod, Sequence[str], Facts], Judged] = judge
    rank: Callable[[Pod, Sequence[str], Facts], Ranked] = rank


OURS = Core()

SAME_SECONDS = 1.0
"""kube-scheduler asks for scores a few milliseconds after it filtered."""

ATTEMPT_SECONDS = 5.0
"""kube-scheduler tries preemption right after it filtered: an older entry is of another attempt."""


class Decider:
    """The core's answers, each recorded in the journal."""

    def __init__(
        self,
        sources: Sources,
        *,
        journal: Journal,
        metrics: Metrics,
        workers: Workers,
        core: Core = OURS,
        ask: Ask | None = None,
    ) -> None:
        """ask: told which pairs to measure, after the answer."""
        self.journal, self.workers = journal, workers
        self._sources, self._metrics, self._core = sources, metrics, core
        self._asking = Asking(ask, workers)
        self._faults: dict[str, str] = {}

    async def filter(self, pod: Pod, nodes: tuple[str, ...]) -> Judged:
        facts = self._sources.facts()
        if link.missing(pod, facts):
            self._metrics.missing_policies.inc()
        judged = await self._judged("filter", pod, nodes, facts)
        self.journal.filtered(pod, nodes, judged, facts)
        self._asking.after(pod, judged, facts)
        return judged

    async def prioritize(self, pod: Pod, nodes: tuple[str, ...]) -> Mapping[str, int]:
        facts = self._same_facts(pod)
        ranked = await self._run("prioritize", lambda: self._core.rank(pod, nodes, facts))
        if isinstance(ranked, Fault):
            self._metrics.decided("prioritize", "neutral", ranked.reason)
            ranked = Ranked((), dict.fromkeys(nodes, NEUTRAL), ranked.text)
        else:
            self._metrics.decided("prioritize", "equal" if ranked.neutral else "ranked")
        self.journal.prioritized(pod, nodes, ranked, facts)
        return ranked.scores

    async def preempt(self, pod: Pod, nodes: tuple[str, ...]) -> Judged:
        """As filter. Recorded unless this attempt's filter call was: it may have gone to another replica."""
        facts = self._sources.facts()
        judged = await self._judged("preempt", pod, nodes, facts)
        if not self._just_filtered(pod, facts.now):
            self.journal.filtered(pod, nodes, judged, facts)
        return judged

    def _just_filtered(self, pod: Pod, now: float) -> bool:
        before = self.journal.get(pod.namespace, pod.name)
        same = before is not None and before.judged is not None and before.pod.uid == pod.uid
        return before is not None and same and now - before.decided_at < ATTEMPT_SECONDS

    def _same_facts(self, pod: Pod) -> Facts:
        """The snapshot that the pod was just filtered on, so that one decision has one ground. Freshness is new."""
        facts, before = self._sources.facts(), self.journal.get(pod.namespace, pod.name)
        if before and before.judged_on and before.pod.uid == pod.uid and facts.now - before.decided_at < SAME_SECONDS:
            return structs.replace(facts, snapshot=before.judged_on.snapshot)
        return facts

    async def _judged(self, verb: str, pod: Pod, nodes: tuple[str, ...], facts: Facts) -> Judged:
        judged = await self._run(verb, lambda: self._core.judge(pod, nodes, facts))
        if isinstance(judged, Fault):
            self._metrics.decided(verb, "neutral", judged.reason)
            return _without_plugins(pod, nodes, facts, judged.text)
        result = "kept" if not judged.refused else "restricted" if judged.kept else "refused"
        self._metrics.decided(verb, result, next((refusal.plugin for refusal in judged.refused.values()), ""))
        return judged

    async def _run(self, verb: str, work: Callable[[], T]) -> "T | Fault":
        """What `work` returns, or what went wrong, logged when that changes."""
        try:
            result: T | Fault = await self.workers.run(work)
        except Overran as error:
            result = Fault("overran", f"decision overran {self.workers.deadline_seconds * 1000:g} ms")
            self._note(verb, "overran", error)
        except Exception as error:  # A plugin's fault, whatever it is, must not become the scheduler's.
            result = Fault("fault", "decision failed")
            self._note(verb, f"{type(error).__name__}: {error}", error)
        else:
            self._note(verb, "", None)
        return result

    def _note(self, verb: str, fault: str, error: Exception | None) -> None:
        if self._faults.get(verb, "") == fault:
            return
        self._faults[verb] = fault
        if error:
            _log.error("%s: %s; answers are neutral until this ends", verb, fault, exc_info=error)
        else:
            _log.info("%s: decisions are made again", verb)


class Fault(Struct, frozen=True):
    """reason: the metric's word. text: the same for a reader."""

    reason: str
    text: str


def _without_plugins(pod: Pod, nodes: tuple[str, ...], facts: Facts, why: str) -> Judged:
    if _holds(pod, facts.policy) or link.fails_closed(pod, facts):
        return Judged((), dict.fromkeys(nodes, Refusal("deadline", why)))
    return Judged(nodes, {})


def _holds(pod: Pod, policy: Policy) -> bool:
    """Whether the pod has a delay bound that is not to be waived; one that cannot be understood is not."""
    try:
        wanted = bounds.of(pod)
    except bounds.BadBound:
        return True
    return any((bound.estimate or policy.delay.estimate) is not Estimate.ACCEPT for bound in wanted)
