"""Records what the controller did as Events, for `kubectl describe`.

There is one Event for each patch of a node; its note lists every change.
"""

from collections.abc import Sequence

from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX
from leadsman.kube.event_writer import EventWriter
from leadsman.kube.objects import ObjectReference, PartialObjectMetadata
from leadsman.planning.labels.model import LabelAction, NodePatch


class EventRecorder(EventWriter):
    """The controller's Events."""

    def record_patch(self, patch: NodePatch, node: PartialObjectMetadata | None) -> None:
        """Queues the Event of a patch; none for a patch that only corrected the ownership annotation."""
        if patch.actions:
            about = ObjectReference("Node", "", patch.node, node.metadata.uid if node else "")
            self.record(about, event_reason(patch.actions), event_note(patch.actions), "Label")


def event_reason(actions: Sequence[LabelAction]) -> str:
    """The Event reason of a patch: of its changes, the gravest."""
    marks = [action for action in actions if not action.label.startswith(LABEL_PREFIX)]
    if any(action.value is not None for action in marks):
        return "NodeMarked"
    return "NodeUnmarked" if marks else "NodeLabelled"


def event_note(actions: Sequence[LabelAction]) -> str:
    """The Event note of a patch: each change with its policy and reason."""
    return "; ".join(f"{_describe_change(action)} (policy {action.policy}: {action.reason})" for action in actions)


def _describe_change(action: LabelAction) -> str:
    if action.value is None:
        return f"{action.label} removed"
    return f"{action.label}={action.value}"
