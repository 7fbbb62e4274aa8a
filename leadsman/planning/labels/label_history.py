"""Keeps the plan's memory: when labels changed, and which nodes report which metrics."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, structs

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.telemetry import telemetry_plugins
from leadsman.planning.labels.model import HOUR_SECONDS, LabelHistory, LabelLimits, PlanMemory
from leadsman.planning.labels.ownership import NodeView, OwnedLabels


class ObservedNode(Struct, frozen=True):
    """A node and its labels of ours.

    recorded: as its annotation says.
    owned: recorded or adopted, and on the node.
    adoptable: labels that look like ours and are not recorded; empty when they are adopted.
    """

    view: NodeView
    recorded: OwnedLabels
    owned: OwnedLabels
    adoptable: OwnedLabels = {}


def updated_memory(
    before: PlanMemory, nodes: Iterable[ObservedNode], inputs: DecisionInputs, limits: LabelLimits
) -> PlanMemory:
    """The memory at inputs.now. For hold times, a label that is new to it began now."""
    nodes, remembered = list(nodes), _by_node(before)
    labels = {key: history for each in nodes for key, history in _label_histories(before, each, remembered, inputs.now)}
    return PlanMemory(
        labels=MappingProxyType(
            {key: label for key, label in labels.items() if _is_relevant(label, inputs.now, limits)}
        ),
        reported_at=_reported_at(before, frozenset(each.view.name for each in nodes), inputs),
        policies=inputs.telemetry.policies.used,
        mark_budget=_mark_budget(before, inputs.now, limits),
        planned_at=inputs.now,
    )


_Keys = Mapping[str, Sequence[str]]
"""Node → label keys."""


def _by_node(memory: PlanMemory) -> _Keys:
    keys: dict[str, list[str]] = {}
    for node, key in memory.labels:
        keys.setdefault(node, []).append(key)
    return keys


def _label_histories(
    before: PlanMemory, node: ObservedNode, remembered: _Keys, now: float
) -> Iterator[tuple[tuple[str, str], LabelHistory]]:
    name = node.view.name
    gone = (key for key in remembered.get(name, ()) if key not in node.owned)
    for key in (*node.owned, *gone):
        value = node.view.labels[key] if key in node.owned else None
        yield (
            (name, key),
            _updated_history(before.labels.get((name, key)), value, now, counts=before.planned_at > float("-inf")),
        )


def _updated_history(before: LabelHistory | None, value: str | None, now: float, counts: bool) -> LabelHistory:
    """counts: whether there was a plan before this one, so that a new label has changed since."""
    if before is None:
        return LabelHistory(value, now, (now,) if counts else ())
    flips = tuple(at for at in before.flips if now - at < HOUR_SECONDS)
    if before.value == value:
        return structs.replace(before, flips=flips)
    return LabelHistory(value, now, (*flips, now))


def _is_relevant(label: LabelHistory, now: float, limits: LabelLimits) -> bool:
    return label.value is not None or bool(label.flips) or now - label.since < limits.hold_seconds


def _reported_at(
    before: PlanMemory, nodes: frozenset[str], inputs: DecisionInputs
) -> Mapping[str, Mapping[str, float]]:
    return MappingProxyType(
        {metric: _reporters(before, metric, nodes, inputs) for metric in inputs.telemetry.policies.metrics}
    )


def _reporters(before: PlanMemory, metric: str, nodes: frozenset[str], inputs: DecisionInputs) -> Mapping[str, float]:
    """Node → when it last reported. A node that stopped counts for an hour, or until it leaves the cluster."""
    reporters = {node: at for node, at in before.reported_at.get(metric, {}).items() if inputs.now - at < HOUR_SECONDS}
    reporters.update(dict.fromkeys(telemetry_plugins.reporting_nodes(metric, inputs), inputs.now))
    return {node: at for node, at in reporters.items() if node in nodes}


def _mark_budget(before: PlanMemory, now: float, limits: LabelLimits) -> float:
    if before.planned_at == float("-inf"):
        return before.mark_budget
    return min(1.0, before.mark_budget + limits.marks_per_second * (now - before.planned_at))
