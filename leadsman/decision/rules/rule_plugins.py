"""The filter and the score that a rule of the policy becomes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from leadsman.decision.cel.checker import Read
from leadsman.decision.cel.functions import Kind, Unknown, Value
from leadsman.decision.cel.program import evaluate
from leadsman.decision.columns import Column
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.policy import FilterRule, OnUnknown, Policy, ScoreRule
from leadsman.decision.rule_schema import NODE_FRESH, NODE_OBJECT, NODE_REPORT, POD, NodeObject, compile_rule
from leadsman.decision.rules.rule_values import rule_values
from leadsman.kube import quantity
from leadsman.state.snapshot import NodeState

UNKNOWN = "a value that the rule reads is unknown"


class RuleFilter:
    """Refuses nodes for which the rule is false, and as the rule says those for which it is unknown."""

    def __init__(self, rule: FilterRule) -> None:
        self.name, self._program = rule.name, compile_rule(rule.expression)
        self._refused = Refusal(rule.name, rule.reason)
        self._unknown = Refusal(rule.name, f"rule {rule.name} cannot be checked: {UNKNOWN}")
        self._refuses_unknown = rule.on_unknown is OnUnknown.REFUSE

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        values = rule_values(self._program, pod, nodes, inputs)
        refused = {nodes[at]: self._refused for at in np.flatnonzero(values == 0.0).tolist()}
        if self._refuses_unknown:
            refused |= {nodes[at]: self._unknown for at in np.flatnonzero(np.isnan(values)).tolist()}
        return refused

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return _evidence(self._program.reads, pod, nodes, inputs)


class RuleScore:
    """Scores nodes by the rule."""

    def __init__(self, rule: ScoreRule) -> None:
        self.name, self._weight, self._program = rule.name, rule.weight, compile_rule(rule.expression)

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        if not self._weight:
            return None
        values = rule_values(self._program, pod, nodes, inputs)
        known = np.isfinite(values)
        if known.all():
            return PluginScore(self.name, self._weight, Column(nodes, values))
        column = Column([nodes[at] for at in np.flatnonzero(known).tolist()], values[known])
        unknown = dict.fromkeys([nodes[at] for at in np.flatnonzero(~known).tolist()], UNKNOWN)
        return PluginScore(self.name, self._weight, column, unknown)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return _evidence(self._program.reads, pod, nodes, inputs)


@lru_cache(maxsize=8)
def rule_filters(policy: Policy) -> tuple[RuleFilter, ...]:
    """Of the policy's filter rules, in their order."""
    return tuple(map(RuleFilter, policy.rules.filters))


@lru_cache(maxsize=8)
def rule_scores(policy: Policy) -> tuple[RuleScore, ...]:
    return tuple(map(RuleScore, policy.rules.scores))


def _evidence(reads: frozenset[Read], pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
    """The values that were read, as far as there are any."""
    measured, texts, of_pod = {}, {}, {}
    for read in sorted(reads, key=lambda each: each.text):
        if read.field.scope == POD:
            of_pod[read.text] = "".join(text for _, text in _texts(read, [("", pod)])) or "unknown"
        elif read.kind is Kind.DOUBLE:
            measured[read.text] = dict(_values(read, _sources(read, nodes, inputs)))
        elif read.field.scope != NODE_FRESH:  # An explanation has it already.
            texts[read.text] = dict(_texts(read, _sources(read, nodes, inputs)))
    return Evidence(measured, texts=texts, pod=of_pod)


def _sources(read: Read, nodes: Sequence[str], inputs: DecisionInputs) -> Iterator[tuple[str, NodeObject | NodeState]]:
    labels = inputs.node_labels.by_node if inputs.node_labels else {}
    for node in nodes:
        if read.field.scope == NODE_OBJECT:
            yield node, NodeObject(node, labels.get(node))
        elif read.field.scope == NODE_REPORT and node in inputs.snapshot.nodes:
            yield node, inputs.snapshot.nodes[node]


def _values(read: Read, sources: Iterator[tuple[str, NodeObject | NodeState]]) -> Iterator[tuple[str, Value]]:
    value = evaluate(read)
    for node, source in sources:
        try:
            yield node, value(source)
        except Unknown:
            continue


def _texts(read: Read, sources: object) -> Iterator[tuple[str, str]]:
    for node, value in _values(read, sources):  # type: ignore[arg-type]
        is_quantity = read.kind is Kind.QUANTITY
        yield node, quantity.format_quantity(value) if is_quantity else str(value)
