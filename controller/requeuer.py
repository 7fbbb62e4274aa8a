"""Executes the requeue plan: annotates a node, so that kube-scheduler retries pods that the extender refused."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound, NotLeader
from leadsman.kube.names import RETRIED_AT_ANNOTATION
from leadsman.kube.object_changes import ObjectKey
from leadsman.kube.objects import PendingPod
from leadsman.kube.resources import NODES
from leadsman.planning.requeue import NO_MEMORY, RequeueMemory, TouchNode, plan_requeue
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)


MAX_PLAN_SECONDS = 5.0
"""Of one plan, on a thread; kinds of pods that it does not reach come first in the next."""


class Requeuer:
    """Plans and touches nodes. Call `sync` in turn.

    client: None: a dry run, which only logs.
    rate: of touches.
    touched: nodes touched so far.
    sync_seconds: how long the last plan took.
    """

    def __init__(
        self,
        client: ApiClient | None,
        pods: Callable[[], Mapping[ObjectKey, PendingPod]],
        nodes: Callable[[], Sequence[str]],
        inputs: Callable[[], Awaitable[DecisionInputs]],
        rate: TokenBucket,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self.touched, self.sync_seconds = 0, 0.0
        self._client, self._pods, self._nodes, self._inputs = client, pods, nodes, inputs
        self._rate, self._wall_clock = rate, wall_clock
        self._memory: RequeueMemory = NO_MEMORY
        self._pending: TouchNode | None = None
        self._filter_problem = ProblemLog(
            _log,
            "controller cannot filter nodes for waiting pods; it requeues none of that kind",
            "controller filters nodes for waiting pods again",
            logging.ERROR,
        )
        self._touch_problem = ProblemLog(
            _log,
            "controller cannot annotate a node so that kube-scheduler tries refused pods again; it retries",
            "controller annotates nodes again",
        )

    async def sync(self) -> None:
        """Plans, and touches one node if one is due and the rate allows."""
        began = time.perf_counter()
        pods, nodes, inputs, memory = self._pods().values(), self._nodes(), await self._inputs(), self._memory
        plan = await run_in_daemon_thread(
            lambda: plan_requeue(pods, nodes, inputs, memory, lambda: time.perf_counter() - began < MAX_PLAN_SECONDS),
            "plan requeue",
        )
        self.sync_seconds = time.perf_counter() - began
        self._memory, self._pending = plan.memory, plan.action or self._pending
        for fault in plan.faults:
            self._filter_problem.report(fault, traceback=True)
        if not plan.faults:
            self._filter_problem.clear()
        if self._pending and self._rate.try_take():
            touch, self._pending = self._pending, None
            await self._touch(touch)

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self._memory, self._pending = NO_MEMORY, None

    async def _touch(self, touch: TouchNode) -> None:
        if self._client is None:
            _log.info("dry run: would annotate node %s so that kube-scheduler retries: %s", touch.node, touch.reason)
            return
        annotations = {RETRIED_AT_ANNOTATION: f"{self._wall_clock():%Y-%m-%dT%H:%M:%S.%fZ}"}
        try:
            await self._client.patch(NODES.path("", touch.node), {"metadata": {"annotations": annotations}})
            self.touched += 1
            self._touch_problem.clear()
            _log.info("annotated node %s so that kube-scheduler retries: %s", touch.node, touch.reason)
        except (NotFound, NotLeader):
            return
        except ApiError as error:
            self._pending = touch
            self._touch_problem.report(error)
