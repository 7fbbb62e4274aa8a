"""Looks after pods around their binding: has those retried that the extender refused, by annotating a node; counts by
cause the binds that kube-scheduler itself failed to make; and tells, by Events on pods with a delay bound, why one
waits and whether one was bound against its bound.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from msgspec import Struct
from prometheus_client.core import Metric

from controller.keeper import Keeper, NodeCache, Tools
from leadsman.cluster.model import ClusterPod
from leadsman.decision.model import PodInfo
from leadsman.kube.errors import NotFound
from leadsman.kube.events import LONGEST_NOTE_BYTES, warnings_about
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import RETRIED_AT_ANNOTATION
from leadsman.kube.objects import Event, ObjectReference
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES, PODS
from leadsman.planning.bounded_pods import (
    BoundPod,
    BoundResult,
    SweepMemory,
    placement_reason,
    pods_over_bounds,
    sweep_bound_pods,
    wait_reason,
)
from leadsman.planning.requeue import NO_MEMORY, RequeueMemory, TouchNode, plan_requeue
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.pod_object import PodObject
from leadsman.sources.cluster.workload_follower import UNFINISHED_PODS

_log = logging.getLogger(__name__)


class WatchedPod(PodObject):
    """A pod with what its condition PodScheduled says.

    unscheduled_reason: why kube-scheduler could not place it: Unschedulable, SchedulerError, … (core/v1 types.go); "":
        it could, or has not tried.
    scheduled_at: Unix seconds of its being bound; None: it is not, or nothing says when.
    """

    unscheduled_reason: str = ""
    scheduled_at: float | None = None

    def __post_init__(self) -> None:
        scheduled = next((each for each in self.status.conditions if each.type == "PodScheduled"), None)
        PodObject.__post_init__(self)
        if scheduled is not None and scheduled.status == "False":
            self.unscheduled_reason = scheduled.reason
        elif scheduled is not None and scheduled.last_transition_time is not None:
            self.scheduled_at = scheduled.last_transition_time.timestamp()

    def waits_for(self, reason: str) -> bool:
        """Tells whether kube-scheduler gave up placing the pod for this reason, and it is still to be placed."""
        return self.unscheduled_reason == reason and not self.model.terminating and not self.model.node


MAX_PLAN_SECONDS = 5.0
"""One plan may compute for this long, on a thread; kinds of pods that it does not reach come first in the next."""


class Requeuer(Keeper):
    """Plans which nodes to touch, and touches them.

    rate: of touches.
    touched: nodes touched so far.
    """

    name = "requeue pods"
    problem_texts = (
        "controller cannot annotate a node so that kube-scheduler tries refused pods again; it retries",
        "controller annotates nodes again",
    )

    def __init__(self, tools: Tools, pending: Reflector[WatchedPod], nodes: NodeCache, rate: TokenBucket) -> None:
        super().__init__(tools, [nodes.watched, pending])
        self.touched = 0
        self._pending_pods, self._nodes, self._rate = pending, nodes, rate
        self._memory: RequeueMemory = NO_MEMORY
        self._touch: TouchNode | None = None
        self._filter_problem = ProblemLog(
            _log,
            "controller cannot filter nodes for waiting pods; it requeues none of that kind",
            "controller filters nodes for waiting pods again",
            logging.ERROR,
        )

    async def keep(self) -> None:
        began = time.perf_counter()
        pods = [each.model for each in self._pending_pods.current.values() if each.waits_for("Unschedulable")]
        nodes, memory = list(self._nodes.current), self._memory
        inputs, (judge, _) = await self.tools.reserved_inputs(), self.tools.judges()

        def has_time() -> bool:
            return time.perf_counter() - began < MAX_PLAN_SECONDS

        plan = await self.make_plan(lambda: plan_requeue(pods, nodes, inputs, memory, judge, has_time))
        self._memory, self._touch = plan.memory, plan.action or self._touch
        for fault in plan.faults:
            self._filter_problem.report(fault, traceback=True)
        if not plan.faults:
            self._filter_problem.clear()
        if self._touch and self._rate.try_take():
            await self._annotate(self._touch)
            self._touch = None

    def forget(self) -> None:
        self._memory, self._touch = NO_MEMORY, None

    def families(self) -> Iterator[Metric]:
        yield counter("leadsman_controller_wakeups", "Nodes annotated so that refused pods are retried.", self.touched)

    async def _annotate(self, touch: TouchNode) -> None:
        if self.tools.is_dry_run:
            _log.info("dry run: would annotate node %s so that kube-scheduler retries: %s", touch.node, touch.reason)
            return
        now = datetime.fromtimestamp(self.tools.wall_clock(), UTC)
        annotations = {RETRIED_AT_ANNOTATION: f"{now:%Y-%m-%dT%H:%M:%S.%fZ}"}
        try:
            await self.tools.client.patch(NODES.path("", touch.node), {"metadata": {"annotations": annotations}})
        except NotFound:
            return
        self.touched += 1
        _log.info("annotated node %s so that kube-scheduler retries: %s", touch.node, touch.reason)


# Failed binds are found in kube-scheduler's Events, which name no node. Events are read only of pods that kube-
# scheduler gave up with an error, each at most once a minute. Pods that fit no node are not among them, and binds
# through an extender are reported by that extender.

REREAD_INTERVAL_SECONDS = 60.0
"""kube-scheduler tries such a pod again after 10 s at most, and writes another Event."""

_PLUGIN = re.compile(r'running (?:Pre)?Bind plugin "(?P<name>[^"]+)": ')
"""kube-scheduler's framework/runtime/framework.go, RunPreBindPlugins and RunBindPlugins."""

_TIMED_OUT = re.compile("deadline exceeded|timed out|timeout", re.IGNORECASE)


def bind_failure_cause(message: str) -> IncidentCause | None:
    """Finds the cause that an Event's message names; None: no bind failed, or one that an extender made and reports."""
    plugin = _PLUGIN.match(message)
    if plugin is None:
        return None
    if plugin["name"] == "VolumeBinding":
        return IncidentCause.CLAIM_UNBOUND
    return IncidentCause.BIND_TIMEOUT if _TIMED_OUT.search(message) else IncidentCause.BIND_REFUSED


class BindFailureCounter(Keeper):
    """Reads Events and counts failed binds. Those from before this replica led are for the leader before to count.

    pending: all pods that wait to be bound; others are forgotten.
    rate: of reads.
    failures: cause → failed binds so far.
    """

    name = "count bind failures"
    problem_texts = (
        "controller cannot read Events of pods that failed to bind; it tries again (may it list events?)",
        "controller reads Events of pods that failed to bind again",
    )

    def __init__(self, tools: Tools, pending: Reflector[WatchedPod], rate: TokenBucket) -> None:
        super().__init__(tools, [pending])
        self.failures: Counter[IncidentCause] = Counter()
        self._pending, self._rate = pending, rate
        self.forget()

    def forget(self) -> None:
        self._read_at: dict[str, float] = {}
        self._counted: dict[str, dict[str, int]] = {}
        self._failed_before: set[str] | None = None

    async def keep(self) -> None:
        """Reads the Events that are due."""
        waiting = {pod.metadata.uid: pod for pod in self._pending.current.values()}
        if self._failed_before is None:
            self._failed_before = {uid for uid, pod in waiting.items() if pod.waits_for("SchedulerError")}
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in waiting}
        self._counted = {uid: counted for uid, counted in self._counted.items() if uid in waiting}
        for uid, pod in waiting.items():
            if pod.waits_for("SchedulerError") and self._is_due(uid) and self._rate.try_take():
                self._read_at[uid] = self.tools.clock()
                await self._read_events(pod, uid in self._failed_before)
                self._failed_before.discard(uid)

    def families(self) -> Iterator[Metric]:
        causes = (IncidentCause.BIND_REFUSED, IncidentCause.BIND_TIMEOUT, IncidentCause.CLAIM_UNBOUND)
        yield counter(
            "leadsman_controller_bind_failures",
            "Binds that kube-scheduler itself failed to make, by cause.",
            {cause.value: self.failures[cause] for cause in causes},
            "cause",
        )

    def _is_due(self, uid: str) -> bool:
        return self.tools.clock() - self._read_at.get(uid, float("-inf")) >= REREAD_INTERVAL_SECONDS

    async def _read_events(self, pod: WatchedPod, failed_before: bool) -> None:
        """Events that cannot be read now are read when the pod is due again."""
        for event in await warnings_about(self.tools.client, pod.metadata):
            self._count(pod, event, failed_before)

    def _count(self, pod: WatchedPod, event: Event, failed_before: bool) -> None:
        """Counts as many failures as the Event's series does."""
        cause = bind_failure_cause(event.message) if event.reason == "FailedScheduling" else None
        counted = self._counted.setdefault(pod.metadata.uid, {})
        more = event.occurrences - counted.get(event.metadata.uid, 0)
        if cause and more > 0:
            if not counted:
                meta = pod.metadata
                _log.info("kube-scheduler cannot bind %s/%s (%s): %s", meta.namespace, meta.name, cause, event.message)
            counted[event.metadata.uid] = event.occurrences
            self.failures[cause] += 0 if failed_before else more


# kube-scheduler's own Event says how many nodes refused a pod, without values; and it binds a pod unchecked when the
# extender is not asked, or is skipped (`ignorable: true`). `--replacement` moves a pod over its bound.

PATIENCE_SECONDS = 15.0
"""A pod that waits for less is not reported: a pair that was unknown is measured by then."""
RECHECK_SECONDS = 300.0
"""A pod is looked at once in this time. Another nearest node is reported then, the same not again before
REPEAT_SECONDS."""
REPEAT_SECONDS = 3700.0
"""API servers keep an Event for an hour."""
MAX_LOOKS = 10
"""One turn looks at this many pods; the others come in the next turns."""

COUNT_INTERVAL_SECONDS = 30.0
"""All pods over their bounds are counted once in this time: a count asks for an evaluation of every one."""

BOUND_PODS = f"spec.nodeName!=,{UNFINISHED_PODS}"


_NO_POD = ClusterPod("", "", "")


class BoundedPod(WatchedPod):
    """A pod that is kept only if it has a delay bound; of the others, perhaps 50,000, only the identity is."""

    def __post_init__(self) -> None:
        WatchedPod.__post_init__(self)
        if self.model.terminating or not PodInfo.of(self.model).has_delay_bounds:
            self.model = _NO_POD


def _tell(tools: Tools, info: PodInfo, reason: str, note: str, name: str, *, warning: bool = True) -> None:
    """Queues an Event on the pod. name: what follows the pod's; it is the same on every replica, so that a new leader
    writes it no second time."""
    about = ObjectReference("Pod", info.namespace, info.name, info.uid)
    note = note.encode()[:LONGEST_NOTE_BYTES].decode(errors="ignore")
    tools.tell(about, reason, note, "Schedule", warning=warning, name=f"{info.name[:200].rstrip('.-')}.{name}")


class UncheckedPodReporter(Keeper):
    """Checks pods with a delay bound once they are bound. One that was bound against its bound gets an Event; where it
    is switched on, one that was bound well gets one too, with its delay.

    tells_placements: whether it is.
    over_bound: pods that missed a bound when all were counted last; None: this replica does not lead.
    reflector: of the pods that are on a node.
    results: result → pods that were looked at.
    """

    name = "report pods that were not checked"

    def __init__(self, tools: Tools, *, tells_placements: bool = False) -> None:
        self.reflector = Reflector(tools.client, ListOptions(PODS, field_selector=BOUND_PODS), BoundedPod)
        super().__init__(tools, [self.reflector])
        self.results: Counter[BoundResult] = Counter()
        self._tells_placements = tells_placements
        self.forget()

    def forget(self) -> None:
        self._memory, self._count_at = SweepMemory(), float("-inf")
        self.over_bound: int | None = None

    async def keep(self) -> None:
        pods = [
            BoundPod(PodInfo.of(each.model), each.model.node, each.scheduled_at)
            for each in self.reflector.current.values()
            if each.model.node
        ]
        inputs, memory, now, unix = self.tools.inputs(), self._memory, self.tools.clock(), self.tools.wall_clock()
        sweep = await self.make_plan(lambda: sweep_bound_pods(pods, inputs, memory, now, unix))
        self._memory = sweep.memory
        self.results.update(sweep.ended)
        for pod, why in sweep.unchecked:
            note = (
                f"bound to node {pod.node} against its delay bound: {why}; no extender was asked, or kube-scheduler"
                " skipped it (ignorable); delete the pod once an extender is ready to have it placed again"
            )
            _tell(self.tools, pod.info, "BoundUnchecked", note, f"unchecked.{pod.info.uid[:8]}")
        for pod in sweep.kept if self._tells_placements and not self.tools.is_dry_run else ():
            note = f"bound to node {pod.node}: {placement_reason(pod, inputs)}"
            _tell(self.tools, pod.info, "BoundKept", note, f"kept.{pod.info.uid[:8]}", warning=False)
        if now >= self._count_at and inputs.workloads.loaded:
            self._count_at = now + COUNT_INTERVAL_SECONDS
            self.over_bound = await self.make_plan(lambda: pods_over_bounds(pods, inputs))

    def loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {"watch bound pods": self.reflector.run()}

    def families(self) -> Iterator[Metric]:
        yield counter(
            "leadsman_controller_bound_pods",
            "Pods with a delay bound that were looked at after they were bound; unchecked: bound against it.",
            {result.value: self.results[result] for result in BoundResult},
            "result",
        )
        if self.over_bound is not None:
            yield gauge(
                "leadsman_bounded_pods_over_bound",
                "Pods with a delay bound whose node misses it now, as this leader sees them.",
                self.over_bound,
            )


class _Report(Struct):
    """Remembers moments of a pod, in monotonic seconds. said: subject of a reason → when it was reported."""

    look_at: float
    said: dict[str, float]


class WaitingPodReporter(Keeper):
    """Reports, by an Event for each thing that can be said of a pod, pods with a delay bound that have waited for a
    while; it does not repeat itself before API servers have forgotten the Event.

    rate: of Events.
    waiting: those of the last turn; None: this replica does not lead, or has not looked yet.
    """

    name = "report waiting pods"

    def __init__(self, tools: Tools, pending: Reflector[WatchedPod], nodes: NodeCache, rate: TokenBucket) -> None:
        super().__init__(tools, [nodes.watched, pending])
        self._pending, self._nodes, self._rate = pending, nodes, rate
        self.waiting: list[ClusterPod] | None = None
        self._reports: dict[str, _Report] = {}

    def forget(self) -> None:
        self.waiting, self._reports = None, {}

    async def keep(self) -> None:
        unscheduled = [pod.model for pod in self._pending.current.values() if pod.waits_for("Unschedulable")]
        nodes, inputs, now = list(self._nodes.current), self.tools.inputs(), self.tools.clock()
        infos = await self.make_plan(lambda: list(map(PodInfo.of, unscheduled)))
        bounded = {info.uid: info for info in infos if info.has_delay_bounds}
        self.waiting = [pod for pod in unscheduled if pod.uid in bounded]
        self._reports = {uid: self._reports.get(uid) or _Report(now + PATIENCE_SECONDS, {}) for uid in bounded}
        due = [info for uid, info in bounded.items() if self._reports[uid].look_at <= now][:MAX_LOOKS]
        if not due or self.tools.is_dry_run or not inputs.workloads.loaded:
            return
        reasons = await self.make_plan(lambda: [wait_reason(info, nodes, inputs) for info in due])
        for info, (subject, text) in zip(due, reasons, strict=True):
            self._reports[info.uid].look_at = now + RECHECK_SECONDS
            self._report(info, subject, text, now)

    def families(self) -> Iterator[Metric]:
        if self.waiting is None:
            return
        now = self.tools.wall_clock()
        oldest = min((each.created_at for each in self.waiting if each.created_at), default=now)
        yield gauge(
            "leadsman_bounded_pods_waiting",
            "Pods with a delay bound for which kube-scheduler found no node, as this leader sees them.",
            len(self.waiting),
        )
        yield gauge(
            "leadsman_bounded_pods_longest_wait_seconds",
            "Age of the oldest pod with a delay bound for which kube-scheduler found no node; 0 when none waits.",
            max(0.0, now - oldest),
        )

    def _report(self, info: PodInfo, subject: str, text: str, now: float) -> None:
        said = self._reports[info.uid].said
        if now - said.get(subject, float("-inf")) < REPEAT_SECONDS or not self._rate.try_take():
            return
        said[subject] = now
        digest = blake2b(subject.encode(), digest_size=4).hexdigest()
        _tell(self.tools, info, "BoundWaiting", text, f"waiting.{info.uid[:8]}.{digest}")
