"""Matches labels by selectors as the API does: k8s.io/apimachinery/pkg/labels/selector.go."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class Operator(StrEnum):
    """Says how a requirement compares a label. Gt and Lt compare integers; only node affinity has them."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(Struct, frozen=True, omit_defaults=True):
    """Requires something of one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tells whether these labels fulfil the requirement. A label that is absent fulfils NotIn."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        try:
            number, limit = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return number > limit if self.operator is Operator.GT else number < limit


class LabelSelector(Struct, frozen=True, omit_defaults=True):
    """Matches what fulfils every requirement; an empty one matches everything. An absent selector matches nothing."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tells whether these labels fulfil every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


class NodeSelectorTerm(Struct, frozen=True, omit_defaults=True):
    """Requires labels and a name (matchFields) of a node. A term without any requirement matches no node."""

    labels: tuple[Requirement, ...] = field(default=(), name="matchExpressions")
    fields: tuple[Requirement, ...] = field(default=(), name="matchFields")

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tells whether the node of this name and these labels fulfils every requirement."""
        if not self.labels and not self.fields:
            return False
        names = {"metadata.name": name}
        return all(each.matches(labels) for each in self.labels) and all(each.matches(names) for each in self.fields)
