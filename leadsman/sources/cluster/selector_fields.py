"""Selectors as the API writes them."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.cluster.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement


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
