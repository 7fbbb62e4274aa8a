"""Keeps the labels of nodes as telemetry policies say: plans, patches the nodes and says so in Events.

It is level-triggered: after a restart or a change of the leader the plan is made from the nodes themselves again, and
from the record there of when their labels changed.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from prometheus_client.core import Metric

from controller.keeper import Keeper, Tools
from controller.node_patcher import NodeCache, NodePatcher
from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX
from leadsman.kube.objects import ObjectReference
from leadsman.planning.labels.label_plan import LabelAction, LabelLimits, LabelPlan, PlanMemory
from leadsman.planning.labels.label_planner import plan_labels
from leadsman.runtime.scrape import counter, gauge

_log = logging.getLogger(__name__)

MAX_LOGGED_ACTIONS = 20


class LabelReconciler(Keeper):
    """Plans and applies labels.

    plan: the last one, None before the first.
    """

    name = "reconcile labels"

    def __init__(self, tools: Tools, nodes: NodeCache, patcher: NodePatcher, limits: LabelLimits) -> None:
        super().__init__(tools, [nodes.watched])
        self.plan: LabelPlan | None = None
        self._nodes, self._patcher = nodes, patcher
        self._limits, self._memory = limits, PlanMemory()
        self._shown: tuple[str, ...] = ()
        self._foreign: tuple[str, ...] = ()

    def forget(self) -> None:
        self.plan, self._memory = None, PlanMemory()

    async def keep(self) -> None:
        nodes, refused = self._nodes.current, self._patcher.refused
        views, inputs, memory = self._nodes.views(), self.tools.inputs(), self._memory
        now = self.tools.wall_clock()
        self.plan = await self.make_plan(lambda: plan_labels(views, inputs, memory, self._limits, refused, now))
        self._memory = self.plan.memory
        self._log_plan(self.plan)
        if self.tools.is_dry_run:
            return
        for patch in await self._patcher.apply(self.plan.patches):
            if patch.actions:  # one that only corrects the record of our labels has none
                node = nodes.get(patch.node)
                about = ObjectReference("Node", "", patch.node, node.metadata.uid if node else "")
                self.tools.tell(about, event_reason(patch.actions), event_note(patch.actions), "Label")

    def page(self) -> Mapping[str, Any]:
        if self.plan is None:
            return {"none": "this replica has no plan: another one leads, or none is made yet"}
        withheld = [{**msgspec.to_builtins(each.action), "why": each.why} for each in self.plan.withheld]
        actions = msgspec.to_builtins(self.plan.actions)
        return {"actions": actions, "withheld": withheld, "stopped": list(self.plan.stopped)}

    def families(self) -> Iterator[Metric]:
        plan = self.plan
        if plan:
            yield gauge("leadsman_controller_planned_actions", "Actions in the last label plan.", len(plan.actions))
            yield gauge("leadsman_controller_withheld_actions", "Actions that limits withhold now.", len(plan.withheld))
            yield gauge("leadsman_controller_stopped", "Reasons why policies change nothing now.", len(plan.stopped))
        if not self.tools.is_dry_run:
            yield counter(
                "leadsman_controller_patches", "Patches of nodes, by result.", self._patcher.results, "result"
            )

    def _log_plan(self, plan: LabelPlan) -> None:
        """Logs the plan when it differs from the last one."""
        would = "dry run: would " if self.tools.is_dry_run else ""
        lines = tuple(f"{would}{describe_action(action)}: {action.reason}" for action in plan.actions)
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
    """Describes an action for the log and people."""
    if action.value is None:
        return f"remove label {action.label} from node {action.node}"
    return f"set label {action.label}={action.value} on node {action.node}"


def event_reason(actions: Sequence[LabelAction]) -> str:
    """Returns the Event reason of a patch, by the gravest of its changes."""
    marks = [action for action in actions if not action.label.startswith(LABEL_PREFIX)]
    if any(action.value is not None for action in marks):
        return "NodeMarked"
    return "NodeUnmarked" if marks else "NodeLabelled"


def event_note(actions: Sequence[LabelAction]) -> str:
    """Returns the Event note of a patch: each change with its policy and reason."""
    return "; ".join(f"{_change(action)} (policy {action.policy}: {action.reason})" for action in actions)


def _change(action: LabelAction) -> str:
    return f"{action.label} removed" if action.value is None else f"{action.label}={action.value}"
