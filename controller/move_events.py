"""Events about moves of pods, and about plans of them."""

import logging

from controller.event_recorder import EventRecorder
from leadsman.kube.objects import ObjectReference
from leadsman.planning.moves.model import EndedMove, MoveResult
from leadsman.published.move_plan import MOVE_PLAN
from leadsman.published.moves import Outcome, PlanProgress, RunState

_log = logging.getLogger(__name__)

_REASONS = {
    MoveResult.REPLACED: "Replaced",
    MoveResult.ROLLED_BACK: "ReplacementRolledBack",
    MoveResult.RETURNED: "ReplacementReturned",
    MoveResult.NOT_LANDED: "ReplacementNotLanded",
}
"""A move that was cancelled leaves everything as it was, and no Event."""


def record_end(ended: EndedMove, recorder: EventRecorder) -> None:
    """How a move ended: on its pod, and on the pending pod that it made room for."""
    if ended.result not in _REASONS:
        return
    move, warning = ended.move, ended.result is not MoveResult.REPLACED
    note = f"{move.reason}; from node {move.from_node}: {ended.note}"
    about = ObjectReference("Pod", move.namespace, move.name, move.pod_uid)
    recorder.record(about, _REASONS[ended.result], note, "Replace", warning=warning)
    if move.for_uid:
        namespace, _, name = move.for_name.partition("/")
        note = f"pod {move.namespace}/{move.name} was to make room on node {move.from_node}: {ended.note}"
        about = ObjectReference("Pod", namespace, name, move.for_uid)
        recorder.record(about, _REASONS[ended.result], note, "Replace", warning=warning)


def record_plan(progress: PlanProgress, namespace: str, recorder: EventRecorder) -> None:
    """The state that a plan came to, on the ConfigMap that handed it over. Call it once for each."""
    counts = ", ".join(f"{progress.count(outcome)} {outcome}" for outcome in Outcome)
    note = f"plan {progress.plan} of moves is {progress.state}: {progress.note or counts}"
    unhappy = progress.state in (RunState.ABORTED, RunState.REFUSED)
    _log.log(logging.WARNING if unhappy else logging.INFO, "%s", note)
    about = ObjectReference("ConfigMap", namespace, MOVE_PLAN.config_map, "")
    recorder.record(about, f"MovePlan{progress.state.capitalize()}", note, "Move", warning=unhappy)
