"""Executes the label plan: plans from the nodes' labels and the policies, patches the nodes, records Events.

It is level-triggered: after a restart or a change of the leader the plan is made from the nodes themselves again, and
from the record there of when their labels changed.
"""

import logging
import time
from collections.abc import Callable, Sequence

from controller.event_recorder import EventRecorder
from controller.node_cache import NodeCache
from controller.node_patcher import NodePatcher
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.labels.label_planner import plan_labels
from leadsman.planning.labels.limits import NO_REFUSALS
from leadsman.planning.labels.model import LabelAction, LabelLimits, LabelPlan, PlanMemory
from leadsman.runtime.daemon_thread import run_in_daemon_thread

_log = logging.getLogger(__name__)


class LabelReconciler:
    """Plans and applies labels. Call `reconcile` in turn.

    patcher: None: a dry run, which only shows the plan.
    recorder: None: no Events.
    plan: the last one, None before the first.
    plan_seconds: how long the last plan took to make.
    """

    def __init__(
        self,
        nodes: NodeCache,
        inputs: Callable[[], DecisionInputs],
        patcher: NodePatcher | None,
        recorder: EventRecorder | None,
        limits: LabelLimits | None = None,
        wall_clock: Callable[[], float] = time.time,
    ):
        self.plan: LabelPlan | None = None
        self.plan_seconds = 0.0
        self._nodes, self._inputs, self._patcher, self._recorder = nodes, inputs, patcher, recorder
        self._limits, self._memory, self._wall_clock = limits or LabelLimits(), PlanMemory(), wall_clock
        self._shown: tuple[str, ...] = ()
        self._foreign: tuple[str, ...] = ()

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self.plan, self._memory = None, PlanMemory()

    async def reconcile(self) -> LabelPlan:
        """Makes a plan, applies it and returns it."""
        began, nodes = time.perf_counter(), self._nodes.current
        refused = self._patcher.refused.current if self._patcher else NO_REFUSALS
        views, inputs, memory = self._nodes.views(), self._inputs(), self._memory
        wall_now = self._wall_clock()
        self.plan = await run_in_daemon_thread(
            lambda: plan_labels(views, inputs, memory, self._limits, refused, wall_now), "plan labels"
        )
        self.plan_seconds = time.perf_counter() - began
        self._memory = self.plan.memory
        self._log_plan(self.plan)
        if self._patcher:
            for patch in await self._patcher.apply(self.plan.patches):
                if self._recorder:
                    self._recorder.record_patch(patch, nodes.get(patch.node))
        return self.plan

    def _log_plan(self, plan: LabelPlan) -> None:
        """Logs the plan when it differs from the last one."""
        lines = tuple(
            f"{'dry run: would ' if self._patcher is None else ''}{describe_action(action)}: {action.reason}"
            for action in plan.actions
        )
        if lines != self._shown:
            _log_capped(logging.INFO, lines)
        foreign = tuple(
            f"a label of node {each.action.node} is left alone: {each.why}" for each in plan.withheld if each.foreign
        )
        if foreign != self._foreign:
            _log_capped(logging.WARNING, foreign)
        self._shown, self._foreign = lines, foreign


def _log_capped(level: int, lines: Sequence[str]) -> None:
    for line in lines[:MAX_LOGGED_ACTIONS]:
        _log.log(level, "%s", line)
    if len(lines) > MAX_LOGGED_ACTIONS:
        _log.log(level, "%d more actions are not logged; see /plan", len(lines) - MAX_LOGGED_ACTIONS)


def describe_action(action: LabelAction) -> str:
    """For the log and people."""
    if action.value is None:
        return f"remove label {action.label} from node {action.node}"
    return f"set label {action.label}={action.value} on node {action.node}"


MAX_LOGGED_ACTIONS = 20
