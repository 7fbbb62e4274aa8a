"""Level-triggered: what stands and what the policies want → a plan → the difference, applied.

Nothing is remembered that cannot be lost: after a restart or a change of the lead the plan is made anew from the nodes
themselves.
"""

import logging
import time
from collections.abc import Callable

from controller.nodes import Nodes
from controller.recorder import Recorder
from controller.writer import Writer
from decision.model import Facts
from decision.remedies import Limits, Memory, Plan, plan
from decision.telemetry.actions import Action

_log = logging.getLogger(__name__)


class Loop:
    """Call `once` in turn. writer None: a dry run, which only shows the plan."""

    def __init__(
        self,
        nodes: Nodes,
        facts: Callable[[], Facts],
        writer: Writer | None,
        recorder: Recorder | None,
        limits: Limits | None = None,
    ):
        self.plan: Plan | None = None
        self.plan_seconds = 0.0
        self._nodes, self._facts, self._writer, self._recorder = nodes, facts, writer, recorder
        self._limits, self._memory = limits or Limits(), Memory()
        self._shown: tuple[str, ...] = ()

    def forget(self) -> None:
        """When somebody else leads."""
        self.plan, self._memory = None, Memory()

    async def once(self) -> Plan:
        began, before = time.perf_counter(), self._nodes.current
        self.plan = plan(self._nodes.views(), self._facts(), self._memory, self._limits)
        self.plan_seconds = time.perf_counter() - began
        self._memory = self.plan.memory
        self._show(self.plan)
        if self._writer:
            for patch in await self._writer.apply(self.plan.patches):
                if self._recorder:
                    self._recorder.patched(patch, before.get(patch.node))
        return self.plan

    def _show(self, made: Plan) -> None:
        """In the log, when it is another one than before."""
        lines = tuple(
            f"{'not written: ' if self._writer is None else ''}{_told(action)}: {action.reason}"
            for action in made.actions
        )
        if lines != self._shown:
            for line in lines[:SHOWN_LINES]:
                _log.info("%s", line)
            if len(lines) > SHOWN_LINES:
                _log.info("and %d more", len(lines) - SHOWN_LINES)
        self._shown = lines


def _told(action: Action) -> str:
    if action.value is None:
        return f"removes {action.label} from {action.node}"
    return f"sets {action.label}={action.value} on {action.node}"


SHOWN_LINES = 20
