"""The parts that many objects have: metadata, conditions and selectors, as the API writes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from leadsman.cluster.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from leadsman.kube.bounded_metadata import BoundedAnnotations, BoundedLabels
from leadsman.kube.objects import Condition, ControllerReferences, ObjectIdentity

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
        """Returns those that something here reads."""
        used = {key: value for key, value in self.annotations.items() if self.annotations.is_read(key)}
        return used or _NO_ANNOTATIONS


def condition(conditions: Sequence[Condition], name: str) -> bool | None:
    """Tells whether the condition is true; None: Unknown, or there is none of that name."""
    status = next((each.status for each in conditions if each.type == name), "Unknown")
    return {"True": True, "False": False}.get(status)


# Selectors as the API writes them.


class MatchExpression(Struct, frozen=True, gc=False):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def requirement(self) -> Requirement:
        return Requirement(self.key, self.operator, self.values)


class LabelSelectorFields(Struct, frozen=True, gc=False, rename="camel"):
    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[MatchExpression, ...] = ()

    def selector(self) -> LabelSelector:
        equal = (Requirement(key, Operator.IN, (value,)) for key, value in sorted(self.match_labels.items()))
        return LabelSelector((*equal, *(each.requirement() for each in self.match_expressions)))


class NodeSelectorTermFields(Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[MatchExpression, ...] = ()
    match_fields: tuple[MatchExpression, ...] = ()

    def term(self) -> NodeSelectorTerm:
        labels = tuple(each.requirement() for each in self.match_expressions)
        return NodeSelectorTerm(labels, tuple(each.requirement() for each in self.match_fields))


class NodeSelectorFields(Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: tuple[NodeSelectorTermFields, ...] = ()

    def terms(self) -> tuple[NodeSelectorTerm, ...]:
        return tuple(each.term() for each in self.node_selector_terms)
