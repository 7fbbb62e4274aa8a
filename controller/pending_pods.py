"""Looks after pods that kube-scheduler could not place: has those retried that the extender refused, by annotating a
node, and counts by cause the binds that kube-scheduler itself failed to make.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from prometheus_client.core import Metric

from controller.keeper import Keeper, NodeCache, Tools
from leadsman.kube.errors import NotFound
from leadsman.kube.events import warnings_about
from leadsman.kube.names import RETRIED_AT_ANNOTATION
from leadsman.kube.objects import Event
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES
from leadsman.planning.requeue import NO_MEMORY, RequeueMemory, TouchNode, plan_requeue
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.pod_object import PodObject

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

    def __init__(
        self,
        tools: Tools,
        pending: Reflector[WatchedPod],
        nodes: NodeCache,
        rate: TokenBucket,
    ) -> None:
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
    """Reads Events and counts failed binds.

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
        self._read_at: dict[str, float] = {}
        self._counted: dict[str, dict[str, int]] = {}

    async def keep(self) -> None:
        """Reads the Events that are due."""
        waiting = {pod.metadata.uid: pod for pod in self._pending.current.values()}
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in waiting}
        self._counted = {uid: counted for uid, counted in self._counted.items() if uid in waiting}
        for uid, pod in waiting.items():
            if pod.waits_for("SchedulerError") and self._is_due(uid) and self._rate.try_take():
                self._read_at[uid] = self.tools.clock()
                await self._read_events(pod)

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

    async def _read_events(self, pod: WatchedPod) -> None:
        """Events that cannot be read now are read when the pod is due again."""
        for event in await warnings_about(self.tools.client, pod.metadata):
            self._count(pod, event)

    def _count(self, pod: WatchedPod, event: Event) -> None:
        """Counts as many failures as the Event's series does."""
        cause = bind_failure_cause(event.message) if event.reason == "FailedScheduling" else None
        counted = self._counted.setdefault(pod.metadata.uid, {})
        more = event.occurrences - counted.get(event.metadata.uid, 0)
        if cause and more > 0:
            if not counted:
                meta = pod.metadata
                _log.info("kube-scheduler cannot bind %s/%s (%s): %s", meta.namespace, meta.name, cause, event.message)
            counted[event.metadata.uid] = event.occurrences
            self.failures[cause] += more
