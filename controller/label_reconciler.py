"""Level-triggered: what stands and what the policies want → a plan → the difference, applied.

Nothing is remembered that cannot be lost: after a restart or a change of the lead the plan is made anew from the nodes
themselves.
"""

import logging
import time
from collections.abc import Callable

from controller.event_recorder import EventRecorder
from controller.node_cache import NodeCache
from controller.node_patcher import NodePatcher
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.labels.label_planner import plan_labels
from leadsman.planning.labels.model import LabelAction, LabelLimits, LabelPlan, PlanMemory

_log = logging.getLogger(__name__)


class LabelReconciler:
    """Call `once` in turn. writer None: a dry run, which only shows the plan."""

    def __init__(
        self,
        nodes: NodeCache,
        inputs: Callable[[], DecisionInputs],
        writer: NodePatcher | None,
        recorder: EventRecorder | None,
        limits: LabelLimits | None = None,
    ):
        self.plan: LabelPlan | None = None
        self.plan_seconds = 0.0
        self._nodes, self._inputs, self._writer, self._recorder = nodes, inputs, writer, recorder
        self._limits, self._memory = limits or LabelLimits(), PlanMemory()
        self._shown: tuple[str, ...] = ()

    def reset(self) -> None:
        """When somebody else leads."""
        self.plan, self._memory = None, PlanMemory()

    async def reconcile(self) -> LabelPlan:
        began, before = time.perf_counter(), self._nodes.current
        self.plan = plan_labels(self._nodes.views(), self._inputs(), self._memory, self._limits)
        self.plan_seconds = time.perf_counter() - began
        self._memory = self.plan.memory
        self._log_plan(self.plan)
        if self._writer:
            for patch in await self._writer.apply(self.plan.patches):
                if self._recorder:
                    self._recorder.record_patch(patch, before.get(patch.node))
        return self.plan

    def _log_plan(self, made: LabelPlan) -> None:
        """In the log, when it is another one than before."""
        lines = tuple(
            f"{'not written: ' if self._writer is None else ''}{_describe_action(action)}: {action.reason}"
            for action in made.actions
        )
        if lines != self._shown:
            for line in lines[:MAX_LOGGED_ACTIONS]:
                _log.info("%s", line)
            if len(lines) > MAX_LOGGED_ACTIONS:
                _log.info("and %d more", len(lines) - MAX_LOGGED_ACTIONS)
        self._shown = lines


def _describe_action(action: LabelAction) -> str:
    if action.value is None:
        return f"removes {action.label} from {action.node}"
    return f"sets {action.label}={action.value} on {action.node}"


MAX_LOGGED_ACTIONS = 20
