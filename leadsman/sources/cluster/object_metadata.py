"""The metadata and conditions that the model reads of any object."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from leadsman.kube.bounded_metadata import BoundedAnnotations, BoundedLabels
from leadsman.kube.objects import ControllerReferences, ObjectIdentity

_NO_LABELS, _NO_ANNOTATIONS = BoundedLabels(), BoundedAnnotations()


class MetadataFields(ObjectIdentity, frozen=True, rename="camel"):
    """The metadata of an object."""

    generation: int = 0
    labels: BoundedLabels = _NO_LABELS
    annotations: BoundedAnnotations = _NO_ANNOTATIONS
    owner_references: ControllerReferences = ControllerReferences()
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None

    def identity(self) -> "MetadataFields":
        """Only what a view of the API server's objects needs; labels and annotations stay where some were cut, to be
        counted."""
        return MetadataFields(
            self.name,
            self.namespace,
            self.uid,
            self.resource_version,
            labels=self.labels if self.labels.cut else _NO_LABELS,
            annotations=self.annotations if self.annotations.cut else _NO_ANNOTATIONS,
        )

    def used_annotations(self) -> Mapping[str, str]:
        """Those that something here reads."""
        used = {key: value for key, value in self.annotations.items() if self.annotations.is_read(key)}
        return used or _NO_ANNOTATIONS


class ConditionFields(Struct, frozen=True, gc=False, rename="camel"):
    """A condition of an object."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    last_transition_time: datetime | None = None


def condition(conditions: Sequence[ConditionFields], name: str) -> bool | None:
    """Whether the condition is true; None: Unknown, or there is none of that name."""
    status = next((each.status for each in conditions if each.type == name), "Unknown")
    return {"True": True, "False": False}.get(status)
