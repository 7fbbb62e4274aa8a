"""Decides which label changes may be made now: hold times, flips, and the budgets of marks."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX, VIOLATING, PolicyKey
from leadsman.planning.labels.label_plan import (
    LabelAction,
    LabelLimits,
    ObservedNode,
    PlanMemory,
    WithheldAction,
    mark_key,
)


class LabelChange(Struct, frozen=True):
    """A change that the policies ask for.

    immediate: the policy changed, not the metric, so no hold time applies.
    foreign: the node has the label already, and it is not ours.
    """

    action: LabelAction
    immediate: bool
    foreign: bool

    @property
    def is_removal(self) -> bool:
        """Tells whether it removes the label."""
        return self.action.value is None

    @property
    def is_mark(self) -> bool:
        """Tells whether it marks a node, so that a descheduler evicts its pods."""
        action = self.action
        is_new = action.value == VIOLATING and action.before != VIOLATING
        return is_new and action.label == mark_key(action.policy)


class LimitedChanges(Struct, frozen=True):
    """The changes that may be made, and those that may not.

    allowed: node → its actions.
    mark_budget: what is left of it.
    """

    allowed: Mapping[str, Sequence[LabelAction]]
    withheld: Sequence[WithheldAction]
    mark_budget: float


MAX_RECORD_BYTES = 48 << 10
"""The annotation that records a node's owned labels may have this size: 400 labels. It is read up to 64 KiB
(`bounded_metadata`), and a node of which it could not be read would keep its labels as they are, of all policies."""

RefusedReasons = Mapping[tuple[str, PolicyKey], str]
"""Node and policy → why the policy's changes of the node are not due: the API server refused them lately."""

NO_REFUSALS: RefusedReasons = MappingProxyType({})


def apply_limits(
    changes: Sequence[LabelChange],
    nodes: Sequence[ObservedNode],
    memory: PlanMemory,
    limits: LabelLimits,
    refused: RefusedReasons = NO_REFUSALS,
) -> LimitedChanges:
    """Divides the changes; removals first, because they make room in the budget."""
    allowed: dict[str, list[LabelAction]] = {}
    withheld = []
    budget, records = _Budget(nodes, memory, limits), _Records(nodes)
    for change in sorted(changes, key=lambda change: not change.is_removal):
        reason = _hold_reason(change, memory, limits)
        reason = reason or refused.get((change.action.node, change.action.policy), "")
        reason = reason or records.refusal_reason(change)
        reason = reason or (budget.refusal_reason(change) if change.is_mark else "")
        if reason:
            withheld.append(WithheldAction(change.action, reason, change.foreign))
        else:
            budget.spend(change)
            records.add(change)
            allowed.setdefault(change.action.node, []).append(change.action)
    return LimitedChanges(allowed, withheld, budget.left)


def _hold_reason(change: LabelChange, memory: PlanMemory, limits: LabelLimits) -> str:
    if change.foreign:
        return _foreign_reason(change.action)
    before = memory.labels.get((change.action.node, change.action.label))
    if change.immediate or before is None:
        return ""
    age = memory.planned_at - before.since
    if age < limits.hold_seconds:
        return f"changed {age:.0f} s ago; held for {limits.hold_seconds:g} s"
    if len(before.flips) >= limits.max_flips_per_hour:
        return (
            f"changed {len(before.flips)} times within an hour (limit {limits.max_flips_per_hour});"
            " frozen until the first change is an hour old"
        )
    return ""


def _foreign_reason(action: LabelAction) -> str:
    if action.before == VIOLATING or action.label.startswith(LABEL_PREFIX):
        return f"{action.label}={action.before} is not recorded as ours; --adopt takes it over"
    return f"{action.label}={action.before} is somebody else's; remove that label or rename the policy"


class _Records:
    """The size of each node's record of owned labels, in bytes, counted while changes are let through."""

    def __init__(self, nodes: Sequence[ObservedNode]) -> None:
        self._sizes = {each.view.name: sum(_entry_bytes(*entry) for entry in each.owned.items()) for each in nodes}

    def refusal_reason(self, change: LabelChange) -> str:
        action = change.action
        size = self._sizes[action.node] + _entry_bytes(action.label, action.policy)
        if action.before is not None or action.value is None or size <= MAX_RECORD_BYTES:
            return ""
        return f"the node's record of owned labels may have {MAX_RECORD_BYTES:,} bytes; policies set too many labels"

    def add(self, change: LabelChange) -> None:
        action = change.action
        if action.value is None:
            self._sizes[action.node] -= _entry_bytes(action.label, action.policy)
        elif action.before is None:
            self._sizes[action.node] += _entry_bytes(action.label, action.policy)


def _entry_bytes(label: str, policy: PolicyKey) -> int:
    """Returns what an entry takes in JSON: the two texts, their quotes, a colon and a comma."""
    return len(label) + len(str(policy)) + 6


class _Budget:
    """Marked nodes and new marks, counted while changes are let through."""

    def __init__(self, nodes: Sequence[ObservedNode], memory: PlanMemory, limits: LabelLimits) -> None:
        marks = {each.view.name: {key for key, owner in each.owned.items() if key == mark_key(owner)} for each in nodes}
        self._marks = {node: keys for node, keys in marks.items() if keys}
        self._max_marked = max(1, int(limits.max_marked_ratio * len(nodes))) if limits.max_marked_ratio else 0
        self._nodes = len(nodes)
        self.left = memory.mark_budget

    def refusal_reason(self, change: LabelChange) -> str:
        if change.action.node not in self._marks and len(self._marks) >= self._max_marked:
            return f"{len(self._marks)} of {self._nodes} nodes are marked; at most {self._max_marked} are allowed"
        return "" if self.left >= 1 else "mark rate limit reached; the node is marked later"

    def spend(self, change: LabelChange) -> None:
        node, label = change.action.node, change.action.label
        if change.is_mark:
            self._marks.setdefault(node, set()).add(label)
            self.left -= 1
        elif change.is_removal and node in self._marks:
            self._marks[node].discard(label)
            if not self._marks[node]:
                del self._marks[node]
