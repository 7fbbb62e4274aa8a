"""What to do about violated policies: labels on nodes, as a plan. Pure; the controller carries it out.

Level-triggered: the plan is the difference between what the policies want now and what stands on the nodes. So a patch
that failed is simply planned again, and after one that succeeded there is nothing left to plan.
"""

from collections.abc import Iterator, Mapping, Sequence, Set

from msgspec import structs

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.telemetry.model import TasPolicies
from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX, VIOLATING, PolicyKey, TasPolicy
from leadsman.planning.labels import ownership
from leadsman.planning.labels.desired_labels import DesiredLabel, DesiredLabelInputs, DesiredValue, find_desired_labels
from leadsman.planning.labels.label_history import ObservedNode, updated_memory
from leadsman.planning.labels.limits import LabelChange, apply_limits
from leadsman.planning.labels.model import LabelAction, LabelLimits, LabelPlan, NodePatch, PlanMemory
from leadsman.planning.labels.ownership import NodeView, OwnedLabels


def plan_labels(
    nodes: Sequence[NodeView], inputs: DecisionInputs, memory: PlanMemory, limits: LabelLimits
) -> LabelPlan:
    """nodes: all of the cluster. inputs: with policies, metrics and now."""
    policies = inputs.telemetry.policies
    if not policies.loaded:
        return LabelPlan((), (), ("the policies are not listed yet",), memory)
    seen, unreadable = _observed_nodes(nodes, policies, limits)
    edited = frozenset(key for key, policy in policies.used.items() if _edited(policy, memory.policies.get(key)))
    after = updated_memory(memory, seen, inputs, limits)
    wishes = _desired_labels(seen, inputs, after, edited, limits)
    changes = [change for each in seen for change in _label_changes(each, wishes, policies, edited)]
    done = apply_limits(changes, seen, after, limits)
    stopped = sorted({wish.stopped for of in wishes.values() for wish in of if wish.stopped})
    patches = [patch for each in seen if (patch := _patch(each, done.allowed.get(each.view.name, ())))]
    memory = structs.replace(after, mark_budget=done.mark_budget)
    return LabelPlan(tuple(patches), tuple(done.withheld), (*unreadable, *stopped), memory)


def _observed_nodes(
    nodes: Sequence[NodeView], policies: TasPolicies, limits: LabelLimits
) -> tuple[list[ObservedNode], list[str]]:
    """Nodes by name. One whose annotation cannot be read is left alone."""
    seen, unreadable = [], []
    for node in sorted(nodes, key=lambda node: node.name):
        try:
            recorded = ownership.parse_ownership(node)
        except ownership.BadOwnership as error:
            unreadable.append(str(error))
            continue
        found = {**(_adopted(node, policies) if limits.adopt else {}), **recorded}
        seen.append(ObservedNode(node, recorded, {key: owner for key, owner in found.items() if key in node.labels}))
    return seen, unreadable


def _adopted(node: NodeView, policies: TasPolicies) -> OwnedLabels:
    """What the original left: everything under its prefix, and the marks of policies that are in use."""
    by_name = {key.name: key for key in sorted(policies.used, reverse=True)}
    marks = {name: by_name[name] for name, value in node.labels.items() if name in by_name and value == VIOLATING}
    left = (key for key in node.labels if key.startswith(LABEL_PREFIX))
    names = {key: key.removeprefix(LABEL_PREFIX).partition("/")[0] for key in left}
    return {**marks, **{key: by_name.get(name, PolicyKey("", name)) for key, name in names.items()}}


def _edited(policy: TasPolicy, before: TasPolicy | None) -> bool:
    """An edit acts at once: what stood because of the rules before it is no reason any more."""
    return before is not None and (policy.deschedule, policy.labeling) != (before.deschedule, before.labeling)


_DesiredByKey = Mapping[str, Sequence[DesiredLabel]]
"""Label key → of each policy that writes it, by namespace."""


def _desired_labels(
    seen: Sequence[ObservedNode],
    inputs: DecisionInputs,
    memory: PlanMemory,
    edited: Set[PolicyKey],
    limits: LabelLimits,
) -> _DesiredByKey:
    reported = {metric: frozenset(nodes) for metric, nodes in memory.reported_at.items()}
    names = [each.view.name for each in seen]
    asked = DesiredLabelInputs(names, inputs, reported, limits.leave_ratio, limits.min_fresh_ratio)
    found: dict[str, list[DesiredLabel]] = {}
    for key, policy in sorted(inputs.telemetry.policies.used.items()):
        for label, wish in find_desired_labels(
            policy, {} if key in edited else _current_labels(key, seen), asked
        ).items():
            found.setdefault(label, []).append(wish)
    return found


def _current_labels(policy: PolicyKey, seen: Sequence[ObservedNode]) -> Mapping[str, Mapping[str, str]]:
    return {
        each.view.name: {key: each.view.labels[key] for key, owner in each.owned.items() if owner == policy}
        for each in seen
        if policy in each.owned.values()
    }


def _label_changes(
    node: ObservedNode, wishes: _DesiredByKey, policies: TasPolicies, edited: Set[PolicyKey]
) -> Iterator[LabelChange]:
    """What differs on one node. A label that two policies want is the one's that has it, else the first's."""
    name, labels = node.view.name, node.view.labels
    for key in sorted({*node.owned, *(key for key, of in wishes.items() if any(name in each.by_node for each in of))}):
        owner, before = node.owned.get(key), labels.get(key)
        mine = next((wish for wish in wishes.get(key, ()) if wish.policy == owner), None)
        written = mine is not None and before in mine.possible_values
        if _is_kept(owner, mine, written, policies):
            continue
        claim = _desired_value(name, mine, wishes.get(key, ()))
        if claim is None and owner is not None:
            action = LabelAction(name, key, None, before, owner, _removal_reason(owner, written, policies))
            yield LabelChange(action, immediate=not written or owner in edited, foreign=False)
        elif claim is not None and (claim.value, claim.policy) != (before, owner):
            action = LabelAction(name, key, claim.value, before, claim.policy, claim.reason)
            at_once = claim.policy in edited or claim.value == before or (owner is not None and not written)
            yield LabelChange(action, at_once, foreign=before is not None and owner is None)


def _is_kept(owner: PolicyKey | None, mine: DesiredLabel | None, written: bool, policies: TasPolicies) -> bool:
    """Whether too little is known to change it: of the metrics, or of a policy whose only version is a bad one."""
    if mine is not None and written and mine.stopped:
        return True
    return owner is not None and owner in policies.refused and owner not in policies.used


def _desired_value(node: str, mine: DesiredLabel | None, every: Sequence[DesiredLabel]) -> DesiredValue | None:
    in_order = [*([mine] if mine else []), *every]
    return next((wish.by_node[node] for wish in in_order if node in wish.by_node), None)


def _removal_reason(owner: PolicyKey, written: bool, policies: TasPolicies) -> str:
    if owner not in policies.used:
        return "there is no such policy any more"
    return "no longer violated" if written else "no rule of the policy writes it any more"


def _patch(node: ObservedNode, actions: Sequence[LabelAction]) -> NodePatch | None:
    """None when nothing changes, not even in the record of what is ours."""
    owned = dict(node.owned)
    for action in actions:
        owned.pop(action.label, None)
        if action.value is not None:
            owned[action.label] = action.policy
    if owned == node.recorded and not actions and not ownership.has_deprecated_ownership(node.view):
        return None
    seen = tuple(action for action in actions if action.value != action.before)
    labels = {action.label: action.value for action in seen}
    return NodePatch(node.view.name, labels, owned, seen, ownership.format_ownership(owned), node.view.resource_version)
