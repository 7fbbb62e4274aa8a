"""Plans the labels that telemetry policies ask for on nodes. Pure; the controller executes the plan.

It is level-triggered: the plan is the difference between the labels that the policies ask for now and those on the
nodes. So a patch that failed is planned again, and after one that succeeded nothing is left to plan.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec import Struct, structs

from leadsman.decision.inputs import DecisionInputs, TasPolicies
from leadsman.decision.telemetry import telemetry_plugins
from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX, VIOLATING, PolicyKey, TasPolicy
from leadsman.planning.labels import label_plan
from leadsman.planning.labels.desired_labels import DesiredLabel, LabelWishes
from leadsman.planning.labels.label_plan import (
    HOUR_SECONDS,
    LabelAction,
    LabelHistory,
    LabelLimits,
    LabelPlan,
    NodePatch,
    NodeView,
    ObservedNode,
    OwnedLabels,
    PlanMemory,
    WithheldAction,
    mark_key,
    parse_changes,
)

# Which label changes may be made now: hold times, flips, and the budgets of marks.


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


MAX_RECORD_BYTES = 48 << 10
"""The annotation that records a node's owned labels may have this size: 400 labels. It is read up to 64 KiB
(`bounded_metadata`), and a node of which it could not be read would keep its labels as they are, of all policies."""

RefusedReasons = Mapping[tuple[str, PolicyKey], str]
"""Node and policy → why the policy's changes of the node are not due: the API server refused them lately."""

NO_REFUSALS: RefusedReasons = {}


def apply_limits(
    changes: Sequence[LabelChange],
    nodes: Sequence[ObservedNode],
    memory: PlanMemory,
    limits: LabelLimits,
    refused: RefusedReasons = NO_REFUSALS,
) -> tuple[Mapping[str, Sequence[LabelAction]], Sequence[WithheldAction], float]:
    """Divides the changes; removals first, because they make room in the budget. Returns node → the actions that may be
    made, the others, and what is left of the budget of marks."""
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
    return allowed, withheld, budget.left


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


# The plan's memory: when labels changed, and which nodes report which metrics.


def updated_memory(
    before: PlanMemory, nodes: Iterable[ObservedNode], inputs: DecisionInputs, limits: LabelLimits
) -> PlanMemory:
    """Returns the memory at inputs.now. For hold times, a label that is new to it began now."""
    by_name, now, has_planned = {each.view.name: each for each in nodes}, inputs.now, before.planned_at > float("-inf")
    values = {(name, key): each.view.labels[key] for name, each in by_name.items() for key in each.owned}
    keys = (*values, *(key for key in before.labels if key[0] in by_name and key not in values))
    updated = {key: _updated_history(before.labels.get(key), values.get(key), now, has_planned) for key in keys}
    labels = {
        key: label
        for key, label in updated.items()
        if label.value is not None or label.flips or now - label.since < limits.hold_seconds
    }
    mark_budget = before.mark_budget
    if has_planned:
        mark_budget = min(1.0, mark_budget + limits.marks_per_second * (now - before.planned_at))
    policies = inputs.telemetry.policies
    return PlanMemory(
        labels=labels,
        reported_at={metric: _reporters(before, metric, by_name.keys(), inputs) for metric in policies.metrics},
        policies=policies.used,
        mark_budget=mark_budget,
        planned_at=now,
        began_at=min(before.began_at, now),
    )


def _updated_history(before: LabelHistory | None, value: str | None, now: float, counts: bool) -> LabelHistory:
    """Returns the label's history with its value in this plan.

    counts: whether there was a plan before this one, so that a new label has changed since.
    """
    if before is None:
        return LabelHistory(value, now, (now,) if counts else ())
    flips = tuple(at for at in before.flips if now - at < HOUR_SECONDS)
    if before.value == value:
        return structs.replace(before, flips=flips)
    return LabelHistory(value, now, (*flips, now))


def _reporters(before: PlanMemory, metric: str, nodes: Set[str], inputs: DecisionInputs) -> Mapping[str, float]:
    """Maps each node to when it last reported. A node that stopped counts for an hour, or until it leaves the
    cluster."""
    reporters = {node: at for node, at in before.reported_at.get(metric, {}).items() if inputs.now - at < HOUR_SECONDS}
    reporters.update(dict.fromkeys(telemetry_plugins.reporting_nodes(metric, inputs), inputs.now))
    return {node: at for node, at in reporters.items() if node in nodes}


def plan_labels(
    nodes: Sequence[NodeView],
    inputs: DecisionInputs,
    memory: PlanMemory,
    limits: LabelLimits,
    refused: RefusedReasons = NO_REFUSALS,
    wall_now: float | None = None,
) -> LabelPlan:
    """Plans the labels of all `nodes`.

    inputs: with policies, metrics and now.
    refused: changes that are not due.
    wall_now: unix seconds, for the record of changes on the nodes; None: none is read or written.
    """
    policies = inputs.telemetry.policies
    if not policies.loaded:
        return LabelPlan((), (), ("telemetry policies are not listed yet; labels are left as they are",), memory)
    observed, unreadable = _observed_nodes(nodes, policies, limits)
    edited = frozenset(key for key, policy in policies.used.items() if _edited(policy, memory.policies.get(key)))
    if memory.planned_at == float("-inf") and wall_now is not None:
        memory = _remembered(memory, observed, inputs.now, wall_now)
    after = updated_memory(memory, observed, inputs, limits)
    desired = _desired_labels(observed, inputs, after, edited, limits)
    changes = [change for each in observed for change in _label_changes(each, desired, policies, edited)]
    allowed, withheld, mark_budget = apply_limits(changes, observed, after, limits, refused)
    stopped = sorted({label.stopped for labels in desired.values() for label in labels if label.stopped})
    patches = [patch for each in observed if (patch := _patch(each, allowed.get(each.view.name, ())))]
    if wall_now is not None:
        patches = list(_with_records(patches, after, inputs.now, wall_now))
    memory = structs.replace(after, mark_budget=mark_budget)
    return LabelPlan(tuple(patches), tuple(withheld), (*unreadable, *stopped), memory)


def _remembered(memory: PlanMemory, observed: Sequence[ObservedNode], now: float, wall_now: float) -> PlanMemory:
    """Returns what an earlier leader recorded on the nodes. For hold times, such a label changed now."""
    labels: dict[tuple[str, str], LabelHistory] = {}
    for each in observed:
        for key, ages in parse_changes(each.view, wall_now):
            flips = tuple(sorted(now - age for age in ages if age < HOUR_SECONDS))
            if flips:
                labels[each.view.name, key] = LabelHistory(each.view.labels.get(key), now, flips)
    return structs.replace(memory, labels=labels)


def _with_records(patches: Iterable[NodePatch], memory: PlanMemory, now: float, wall_now: float) -> Iterator[NodePatch]:
    """Yields the patches, each with the changes of its node within the hour."""
    changed_at: dict[str, dict[str, Sequence[float]]] = {}
    for (node, key), history in memory.labels.items():
        changed_at.setdefault(node, {})[key] = [wall_now - (now - at) for at in history.flips]
    for patch in patches:
        yield structs.replace(patch, changed_at=changed_at.get(patch.node, {}), wall_now=wall_now)


def _observed_nodes(
    nodes: Sequence[NodeView], policies: TasPolicies, limits: LabelLimits
) -> tuple[list[ObservedNode], list[str]]:
    """Reads the nodes by name. One whose annotation cannot be read is left alone."""
    observed, unreadable = [], []
    by_name = {key.name: key for key in sorted(policies.used, reverse=True)}
    for node in sorted(nodes, key=lambda node: node.name):
        if node.excess:
            unreadable.append(f"node {node.name} is left alone: {node.excess}")
            continue
        try:
            recorded = label_plan.parse_ownership(node)
        except label_plan.BadOwnership as error:
            unreadable.append(str(error))
            continue
        owned = {key: owner for key, owner in recorded.items() if key in node.labels}
        unrecorded = {key: owner for key, owner in _left_behind(node, by_name).items() if key not in owned}
        observed.append(
            ObservedNode(node, recorded, {**unrecorded, **owned})
            if limits.adopt
            else ObservedNode(node, recorded, owned, unrecorded)
        )
    return observed, unreadable


def _left_behind(node: NodeView, policies: Mapping[str, PolicyKey]) -> OwnedLabels:
    """Returns what Telemetry Aware Scheduling can have left: labels under its prefix, and marks of policies that are in
    use.

    policies: those in use, by name.
    """
    found: dict[str, PolicyKey] = {}
    for label, value in node.labels.items():
        if label.startswith(LABEL_PREFIX):
            name = label.removeprefix(LABEL_PREFIX).partition("/")[0]
            found[label] = policies.get(name, PolicyKey("", name))
        elif value == VIOLATING and label in policies:
            found[label] = policies[label]
    return found


def _edited(policy: TasPolicy, before: TasPolicy | None) -> bool:
    """Tells whether the rules changed. An edit acts at once: labels that the old rules set no longer count."""
    return before is not None and (policy.deschedule, policy.labeling) != (before.deschedule, before.labeling)


_DesiredByKey = Mapping[str, Sequence[DesiredLabel]]
"""Maps each label key to what each policy that writes it asks for, by namespace."""


def _desired_labels(
    observed: Sequence[ObservedNode],
    inputs: DecisionInputs,
    memory: PlanMemory,
    edited: Set[PolicyKey],
    limits: LabelLimits,
) -> _DesiredByKey:
    reported = {metric: frozenset(nodes) for metric, nodes in memory.reported_at.items()}
    names = [each.view.name for each in observed]
    is_new = inputs.now - memory.began_at < HOUR_SECONDS
    wishes = LabelWishes(names, inputs, reported, limits, is_new)
    by_key: dict[str, list[DesiredLabel]] = {}
    for key, policy in sorted(inputs.telemetry.policies.used.items()):
        current = {} if key in edited else _current_labels(key, observed)
        for label, desired in wishes.of(policy, current).items():
            by_key.setdefault(label, []).append(desired)
    return by_key


def _current_labels(policy: PolicyKey, observed: Sequence[ObservedNode]) -> Mapping[str, Mapping[str, str]]:
    return {
        each.view.name: {key: each.view.labels[key] for key, owner in each.owned.items() if owner == policy}
        for each in observed
        if policy in each.owned.values()
    }


def _label_changes(
    node: ObservedNode, desired: _DesiredByKey, policies: TasPolicies, edited: Set[PolicyKey]
) -> Iterator[LabelChange]:
    """Returns what differs on one node. When two policies ask for a label, its owner decides, else the first policy."""
    name, labels = node.view.name, node.view.labels
    asked_for = (key for key, of in desired.items() if any(name in each.by_node for each in of))
    for key in sorted({*node.owned, *node.adoptable, *asked_for}):
        owner, before = node.owned.get(key), labels.get(key)
        holder = owner or node.adoptable.get(key)
        own = next((label for label in desired.get(key, ()) if label.policy == holder), None)
        by_rule = own is not None and before in own.possible_values
        if _is_kept(holder, own, by_rule, policies):
            continue
        in_order = [*([own] if own else []), *desired.get(key, ())]
        value = next((label.by_node[name] for label in in_order if name in label.by_node), None)
        if value is None and holder is not None:
            action = LabelAction(name, key, None, before, holder, _removal_reason(holder, by_rule, policies))
            yield LabelChange(action, immediate=not by_rule or holder in edited, foreign=owner is None)
        elif value is not None and (value.value, value.policy) != (before, owner):
            action = LabelAction(name, key, value.value, before, value.policy, value.reason)
            immediate = value.policy in edited or value.value == before or (owner is not None and not by_rule)
            yield LabelChange(action, immediate, foreign=before is not None and owner is None)


def _is_kept(owner: PolicyKey | None, own: DesiredLabel | None, by_rule: bool, policies: TasPolicies) -> bool:
    """Tells whether too little is known to change the label: metrics are missing, or the policy has no valid
    version."""
    if own is not None and by_rule and own.stopped:
        return True
    return owner is not None and owner in policies.refused and owner not in policies.used


def _removal_reason(owner: PolicyKey, by_rule: bool, policies: TasPolicies) -> str:
    if owner not in policies.used:
        return "the policy was deleted"
    return "no longer violated" if by_rule else "no rule of the policy sets this label any more"


def _patch(node: ObservedNode, actions: Sequence[LabelAction]) -> NodePatch | None:
    """Returns the node's patch; None when nothing changes, not even the ownership annotation."""
    owned = dict(node.owned)
    for action in actions:
        owned.pop(action.label, None)
        if action.value is not None:
            owned[action.label] = action.policy
    if owned == node.recorded and not actions:
        return None
    changes = tuple(action for action in actions if action.value != action.before)
    labels = {action.label: action.value for action in changes}
    return NodePatch(node.view.name, labels, owned, changes, node.owned, node.view.resource_version)
