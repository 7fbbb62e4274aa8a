"""Makes a decision within its deadline, or gives the neutral one.

The neutral decision lets all nodes pass with equal scores, so a slow or broken plugin costs quality, not scheduling.
Exceptions are a pod whose telemetry policy fails closed, one that asks for bandwidth or a part of a device, and a pod
with delay bounds, unless it or the policy accepts unknown delays (`estimate: accept`), and every pod where a filter of
another package fails closed: all nodes are refused for them, as unresolvable, so that no pod is evicted for a node that
cannot be checked.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import filterfalse
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct, structs

from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.worker_pool import DeadlineExceeded, WorkerPool
from leadsman.cluster.devices.demand import NO_DEMAND
from leadsman.decision.decide import NEUTRAL_SCORE, FilterResult, ScoreResult, filter_nodes, score_nodes
from leadsman.decision.delay import bounds, delay_plugins
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.devices.device_filter import needs_reservation, without_victims
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal
from leadsman.decision.policy import EstimateMode, Policy
from leadsman.decision.self_healing import PROTECTED, protected_placeholders
from leadsman.decision.telemetry import telemetry_plugins
from leadsman.kube.names import POLICY_LABEL
from leadsman.runtime.log_limit import LogLimit
from leadsman.runtime.lru import LruCache
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.device_reservations import DeviceReservations
from leadsman.sources.recording.messages import DecidedRequest
from leadsman.sources.wiring import InputSources
from leadsman.state.snapshot import Snapshot

# Which decisions are short enough for the event loop's own thread.
#
# Handing a decision to a worker and its result back costs some 0.1 to 0.2 ms, more than a small decision itself. One
# that is made at once takes no longer than reading the body and writing the answer, which the event loop does anyway:
# 2 ms at 5,000 nodes when many of them have just reported. All else, and whatever runs code that is not ours, gets a
# worker and a deadline (docs/decisions/0061).

MAX_BRIEF_NODES = 5_000
"""A decision is brief when neither the request nor the state has more nodes."""

MAX_BRIEF_BOUNDS = 2
"""A decision is brief when the pod has no more bounds. Each is to 16 nodes at most, and each of those costs 0.2 ms at
5,000 nodes, once for all pods."""


def is_brief(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> bool:
    """Tells whether the decision takes some milliseconds at most, whatever the pod asks for."""
    return (
        max(len(nodes), len(inputs.snapshot.nodes)) <= MAX_BRIEF_NODES
        and pod.devices == NO_DEMAND
        and not (inputs.policy.plugins.filters or inputs.policy.plugins.scores)
        and len(valid_bounds(pod)) <= MAX_BRIEF_BOUNDS
    )


# Requests the measurements that a decision lacked, after it was answered.

_log = logging.getLogger(__name__)

RequestProbes = Callable[[Sequence[tuple[str, str]]], None]
"""Takes node pairs that should be measured soon, the most useful first: (who measures, whom). Must not block."""

MIN_INTERVAL_SECONDS = 0.5
"""Probes for pods that got nodes are requested once in this time, so that a busy scheduler is not slowed."""

MIN_INTERVAL_UNPLACED_SECONDS = 0.1
"""Probes for pods of one namespace that got no node are requested once in this time: each costs about as much as its
filter call."""

MAX_NAMESPACES = 64
"""The last request is remembered of at most so many namespaces."""


_PLACED = ""
"""Instead of a namespace, for all pods that got nodes."""


class ProbeOnDemand:
    """Asks for measurements that decisions lack, one decision at a time; a pod that finds it busy waits for its next
    try."""

    def __init__(self, request_probes: RequestProbes | None, workers: WorkerPool) -> None:
        self._request_probes, self._workers = request_probes, workers
        self._task: asyncio.Task[None] | None = None
        self._requested_at: LruCache[str, float] = LruCache(MAX_NAMESPACES)

    def request_after_filter(self, pod: PodInfo, filter_result: FilterResult, inputs: DecisionInputs) -> None:
        """Requests pairs of the nodes that passed; when none did, of those that the delay filter refused."""
        busy = self._task is not None and not self._task.done()
        if self._request_probes is None or busy or not pod.has_delay_bounds:
            return
        whose = _PLACED if filter_result.kept else pod.namespace
        interval = MIN_INTERVAL_SECONDS if filter_result.kept else MIN_INTERVAL_UNPLACED_SECONDS
        if inputs.now - (self._requested_at.get(whose) or float("-inf")) < interval:
            return
        nodes = filter_result.kept or tuple(
            node for node, refusal in filter_result.refused.items() if refusal.plugin == delay_plugins.NAME
        )
        self._requested_at.put(whose, inputs.now)
        self._task = asyncio.create_task(
            self._request(self._request_probes, pod, nodes, inputs), name="select probe pairs"
        )

    async def _request(
        self, request_probes: RequestProbes, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs
    ) -> None:
        try:
            stoppable = structs.replace(inputs, checkpoint=self._workers.checkpoint)
            pairs = await self._workers.run(lambda: select_probe_pairs(pod, nodes, stoppable), namespace=pod.namespace)
        except Exception as error:  # It costs a measurement, and must not end the process.
            _log.warning(
                "cannot choose pairs to probe: %s: %s; the next scheduling attempt retries", type(error).__name__, error
            )
            return
        if pairs:
            request_probes(pairs)


T = TypeVar("T")

_log.addFilter(LogLimit())


class DecisionCore(Struct, frozen=True):
    """Holds the two functions that decide. Tests replace them with slow and broken ones.

    is_brief: whether they decide so fast that a worker costs more. fails_closed: whether a plugin of the policy refuses
        every node when there is no decision.
    """

    filter_nodes: Callable[[PodInfo, Sequence[str], DecisionInputs], FilterResult] = filter_nodes
    score_nodes: Callable[[PodInfo, Sequence[str], DecisionInputs], ScoreResult] = score_nodes
    is_brief: Callable[[PodInfo, Sequence[str], DecisionInputs], bool] = lambda *_: False
    fails_closed: Callable[[Policy], bool] = lambda _: False


DEFAULT_CORE = DecisionCore(is_brief=is_brief)

Observer = Callable[[DecidedRequest], None]
"""Takes a decided request. Must not block, and not raise."""

SNAPSHOT_REUSE_SECONDS = 1.0
"""kube-scheduler asks for scores a few milliseconds after it filtered."""

SNAPSHOT_SECONDS_PER_NODE = 4e-5
"""Pods are decided on one snapshot for so long a node: 0.2 s at 5,000 nodes, each of which reports every 30 s. What is
computed from all nodes is then computed for many pods at once. Whether a node's data are fresh is judged at each
request."""


class Decider:
    """Answers kube-scheduler's verbs with the core's decisions and records each in the journal."""

    def __init__(
        self,
        sources: InputSources,
        *,
        journal: Journal,
        metrics: ExtenderMetrics,
        workers: WorkerPool,
        core: DecisionCore = DEFAULT_CORE,
        request_probes: RequestProbes | None = None,
        observers: Sequence[Observer] = (),
        reservations: DeviceReservations | None = None,
    ) -> None:
        """request_probes: called after each answer with the node pairs to measure. observers: called with each
        decided request; they return at once and never raise. reservations: None: nothing of devices is reserved."""
        self.sources, self.journal, self.metrics, self.workers, self.core = sources, journal, metrics, workers, core
        self._probe_on_demand = ProbeOnDemand(request_probes, workers)
        self._observers, self._reservations = observers, reservations
        begins = "decisions fail; the extender answers without its plugins until this ends"
        self._problems = {
            verb: ProblemLog(_log, f"{verb}: {begins}", f"{verb}: decisions succeed again", logging.ERROR)
            for verb in ("filter", "prioritize", "preempt")
        }
        self._snapshot, self._snapshot_until = Snapshot(), float("-inf")

    async def filter(self, pod: PodInfo, nodes: tuple[str, ...]) -> FilterResult:
        inputs = self._current_inputs()
        if POLICY_LABEL in pod.labels and telemetry_plugins.is_policy_missing(pod, inputs):
            self.metrics.missing_policies.inc()
        order, kept = 0, tuple[str, ...]()
        if self._reservations:
            inputs, order = await self._reservations.reserve(pod, inputs)
        try:
            filter_result, fault = await self._filter_result("filter", pod, nodes, inputs)
            refused = self._reservations if order and not filter_result.kept and not fault else None
            if refused and await refused.wait_for_change(inputs):
                inputs = await refused.read(inputs, order)
                filter_result, fault = await self._filter_result("filter", pod, nodes, inputs)
            kept = filter_result.kept
        finally:  # also when kube-scheduler has left: it places the pod nowhere
            if self._reservations:
                await self._reservations.settle(pod, order, kept)
        self.journal.record_filter(pod, nodes, filter_result, inputs)
        self._probe_on_demand.request_after_filter(pod, filter_result, inputs)
        self._observe(DecidedRequest("filter", pod, nodes, inputs, filter_result, fault))
        return filter_result

    async def prioritize(self, pod: PodInfo, nodes: tuple[str, ...]) -> Mapping[str, int]:
        inputs = self._filter_inputs(pod)
        stoppable = self._stoppable(inputs)
        score_result = await self._run(
            "prioritize", pod, nodes, stoppable, partial(self.core.score_nodes, pod, nodes, stoppable)
        )
        fault = ""
        if isinstance(score_result, DecisionFault):
            fault = score_result.message
            self.metrics.count_decision("prioritize", "neutral", score_result.reason)
            score_result = ScoreResult((), dict.fromkeys(nodes, NEUTRAL_SCORE), score_result.message)
        else:
            self.metrics.count_decision("prioritize", "equal" if score_result.neutral else "ranked")
        self.journal.record_prioritize(pod, nodes, score_result, inputs)
        self._observe(DecidedRequest("prioritize", pod, nodes, inputs, score_result.scores, fault))
        return score_result.scores

    async def preempt(self, pod: PodInfo, victims: Mapping[str, Collection[str]]) -> FilterResult:
        """Filters like `filter`, but as if the victims were gone, and first refuses nodes where a placeholder that must
        stay would go. victims: node → UIDs.

        Recorded unless this attempt's filter call was: another replica may have had it. A placeholder that stays is
        always recorded, as no filter call says so.
        """
        inputs = self._current_inputs()
        if self._reservations and needs_reservation(pod, inputs):
            inputs = await self._reservations.read(inputs)
        protected = protected_placeholders(pod, victims, inputs)
        self.metrics.protected_placeholders.inc(sum(map(len, protected.values())))
        then = without_victims(pod, victims, inputs)
        filter_result, fault = await self._filter_result(
            "preempt", pod, tuple(victims), then, dict.fromkeys(protected, PROTECTED)
        )
        attempt = self.journal.of_attempt(pod, inputs.now)
        if protected or attempt is None or attempt.filter_result is None:
            self.journal.record_filter(pod, tuple(victims), filter_result, then)
        uids = {node: tuple(each) for node, each in victims.items()}
        self._observe(DecidedRequest("preempt", pod, tuple(victims), inputs, filter_result, fault, uids))
        return filter_result

    def _observe(self, request: DecidedRequest) -> None:
        """Calls the observers on the loop's next turn, when the answer has been sent."""
        loop = asyncio.get_running_loop()
        for observe in self._observers:
            loop.call_soon(observe, request)

    def _current_inputs(self) -> DecisionInputs:
        """Returns the newest, on a snapshot that is at most a moment old."""
        inputs = self.sources.current_inputs()
        if inputs.now < self._snapshot_until:
            return structs.replace(inputs, snapshot=self._snapshot)
        self._snapshot = inputs.snapshot
        self._snapshot_until = inputs.now + SNAPSHOT_SECONDS_PER_NODE * len(inputs.snapshot.nodes)
        return inputs

    def _filter_inputs(self, pod: PodInfo) -> DecisionInputs:
        """Returns the current inputs, with the snapshot that the pod was just filtered on: one decision, one
        snapshot."""
        inputs, entry = self._current_inputs(), self.journal.get(pod.namespace, pod.name)
        if (
            entry
            and entry.filter_inputs
            and entry.pod.uid == pod.uid
            and inputs.now - entry.decided_at < SNAPSHOT_REUSE_SECONDS
        ):
            return structs.replace(inputs, snapshot=entry.filter_inputs.snapshot)
        return inputs

    async def _filter_result(
        self,
        verb: str,
        pod: PodInfo,
        nodes: tuple[str, ...],
        inputs: DecisionInputs,
        refused: Mapping[str, Refusal] = MappingProxyType({}),
    ) -> tuple[FilterResult, str]:
        """Returns the result, and why it was made without the plugins; "" when it was not.

        refused: nodes that are refused already, also when the plugins fail.
        """
        stoppable = self._stoppable(inputs)
        asked = tuple(filterfalse(refused.__contains__, nodes)) if refused else nodes
        filter_result = await self._run(
            verb, pod, asked, stoppable, partial(self.core.filter_nodes, pod, asked, stoppable)
        )
        if isinstance(filter_result, DecisionFault):
            self.metrics.count_decision(verb, "neutral", filter_result.reason)
            fault = filter_result.message
            closed = self.core.fails_closed(inputs.policy)
            return _also_refused(refused, _without_plugins(pod, asked, inputs, fault, closed)), fault
        filter_result = _also_refused(refused, filter_result)
        result = "kept" if not filter_result.refused else "restricted" if filter_result.kept else "refused"
        self.metrics.count_decision(
            verb, result, next((refusal.plugin for refusal in filter_result.refused.values()), "")
        )
        return filter_result, ""

    def _stoppable(self, inputs: DecisionInputs) -> DecisionInputs:
        """Returns the inputs with this job's checkpoint, which the journal never has: an explanation is another job."""
        return structs.replace(inputs, checkpoint=self.workers.checkpoint)

    async def _run(
        self, verb: str, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs, work: Callable[[], T]
    ) -> "T | DecisionFault":
        """Returns what `work` returns for these nodes and inputs, or why it failed. Logged when that changes."""
        try:
            is_brief = self.core.is_brief(pod, nodes, inputs)
            result: T | DecisionFault = work() if is_brief else await self.workers.run(work, namespace=pod.namespace)
        except DeadlineExceeded as error:
            limit = f"{self.workers.deadline_seconds * 1000:g} ms"
            result = DecisionFault("overran", f"decision exceeded its deadline of {limit}; see the extender's log")
            self._problems[verb].report(error)
        except Exception as error:  # A plugin's fault, whatever it is, must not become the scheduler's.
            result = DecisionFault("fault", "decision failed with an error; see the extender's log")
            self._problems[verb].report(error, traceback=True)
        else:
            if self._problems[verb].text:
                self._problems[verb].clear()
        return result


class DecisionFault(Struct, frozen=True):
    """Says why there is no decision.

    reason: the metric's label value.
    message: the same for a reader, as the refusal reason.
    """

    reason: str
    message: str


def _also_refused(refused: Mapping[str, Refusal], filter_result: FilterResult) -> FilterResult:
    kept, by_plugins = filter_result
    return FilterResult(kept, {**refused, **by_plugins}) if refused else filter_result


def _without_plugins(
    pod: PodInfo, nodes: tuple[str, ...], inputs: DecisionInputs, reason: str, closed: bool
) -> FilterResult:
    """closed: a plugin refuses every node."""
    strict = closed or _has_strict_bound(pod, inputs.policy) or telemetry_plugins.fails_closed(pod, inputs)
    if strict or (inputs.devices.followed and pod.bad_demand) or needs_reservation(pod, inputs):
        return FilterResult((), dict.fromkeys(nodes, Refusal("deadline", reason)))
    return FilterResult(nodes, {})


def _has_strict_bound(pod: PodInfo, policy: Policy) -> bool:
    """Tells whether the pod has a delay bound that must hold even without data; an invalid bound counts as one."""
    try:
        delay_bounds = bounds.parse_bounds(pod)
    except bounds.BadBound:
        return True
    return any((bound.estimate or policy.delay.estimate) is not EstimateMode.ACCEPT for bound in delay_bounds)
