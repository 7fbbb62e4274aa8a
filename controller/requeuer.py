"""Executes the requeue plan: annotates a node, so that kube-scheduler retries pods that the extender refused."""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from prometheus_client.core import Metric

from controller.keeper import Keeper, Tools
from controller.node_patcher import NodeCache
from controller.watched_pods import WatchedPod
from leadsman.kube.errors import NotFound
from leadsman.kube.names import RETRIED_AT_ANNOTATION
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES
from leadsman.planning.requeue import NO_MEMORY, RequeueMemory, TouchNode, plan_requeue
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)


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
