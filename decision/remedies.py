"""What to do about violated policies: labels on nodes, as a plan. Pure; the controller carries it out.

Level-triggered: the plan is the difference between what the policies want now and what stands on the nodes. So a patch
that failed is simply planned again, and after one that succeeded there is nothing left to plan.
"""

from collections.abc import Iterator, Mapping, Sequence, Set

from msgspec import structs

from decision.model import Facts
from decision.telemetry import ownership
from decision.telemetry.actions import Action, Limits, Memory, NodePatch, Plan, Standing, Withheld
from decision.telemetry.known import Policies
from decision.telemetry.ownership import NodeView, Owned
from decision.telemetry.policy import LABEL_PREFIX, VIOLATING, PolicyKey, TasPolicy
from decision.telemetry.restraint import Change, restrained
from decision.telemetry.standing import Seen, observed
from decision.telemetry.wanted import Asked, Claim, Wish
from decision.telemetry.wanted import wishes as wished

__all__ = ["Action", "Limits", "Memory", "NodePatch", "NodeView", "Plan", "Standing", "Withheld", "plan"]


def plan(nodes: Sequence[NodeView], facts: Facts, memory: Memory, limits: Limits) -> Plan:
    """nodes: all of the cluster. facts: with policies, metrics and now."""
    policies = facts.telemetry.policies
    if not policies.loaded:
        return Plan((), (), ("the policies are not listed yet",), memory)
    seen, unreadable = _seen(nodes, policies, limits)
    edited = frozenset(key for key, policy in policies.used.items() if _edited(policy, memory.policies.get(key)))
    after = observed(memory, seen, facts, limits)
    wishes = _wishes(seen, facts, after, edited, limits)
    changes = [change for each in seen for change in _changes(each, wishes, policies, edited)]
    done = restrained(changes, seen, after, limits)
    stopped = sorted({wish.stopped for of in wishes.values() for wish in of if wish.stopped})
    patches = [patch for each in seen if (patch := _patch(each, done.allowed.get(each.view.name, ())))]
    memory = structs.replace(after, marks=done.marks)
    return Plan(tuple(patches), tuple(done.withheld), (*unreadable, *stopped), memory)


def _seen(nodes: Sequence[NodeView], policies: Policies, limits: Limits) -> tuple[list[Seen], list[str]]:
    """Nodes by name. One whose annotation cannot be read is left alone."""
    seen, unreadable = [], []
    for node in sorted(nodes, key=lambda node: node.name):
        try:
            recorded = ownership.read(node)
        except ownership.Unreadable as error:
            unreadable.append(str(error))
            continue
        found = {**(_adopted(node, policies) if limits.adopt else {}), **recorded}
        seen.append(Seen(node, recorded, {key: owner for key, owner in found.items() if key in node.labels}))
    return seen, unreadable


def _adopted(node: NodeView, policies: Policies) -> Owned:
    """What the original left: everything under its prefix, and the marks of policies that are in use."""
    by_name = {key.name: key for key in sorted(policies.used, reverse=True)}
    marks = {name: by_name[name] for name, value in node.labels.items() if name in by_name and value == VIOLATING}
    left = (key for key in node.labels if key.startswith(LABEL_PREFIX))
    names = {key: key.removeprefix(LABEL_PREFIX).partition("/")[0] for key in left}
    return {**marks, **{key: by_name.get(name, PolicyKey("", name)) for key, name in names.items()}}


def _edited(policy: TasPolicy, before: TasPolicy | None) -> bool:
    """An edit acts at once: what stood because of the rules before it is no reason any more."""
    return before is not None and (policy.deschedule, policy.labeling) != (before.deschedule, before.labeling)


_Wishes = Mapping[str, Sequence[Wish]]
"""Label key → of each policy that writes it, by namespace."""


def _wishes(seen: Sequence[Seen], facts: Facts, memory: Memory, edited: Set[PolicyKey], limits: Limits) -> _Wishes:
    reported = {metric: frozenset(nodes) for metric, nodes in memory.reported.items()}
    names = [each.view.name for each in seen]
    asked = Asked(names, facts, reported, limits.leave_ratio, limits.least_fresh_ratio)
    found: dict[str, list[Wish]] = {}
    for key, policy in sorted(facts.telemetry.policies.used.items()):
        for label, wish in wished(policy, {} if key in edited else _stands(key, seen), asked).items():
            found.setdefault(label, []).append(wish)
    return found


def _stands(policy: PolicyKey, seen: Sequence[Seen]) -> Mapping[str, Mapping[str, str]]:
    return {
        each.view.name: {key: each.view.labels[key] for key, owner in each.owned.items() if owner == policy}
        for each in seen
        if policy in each.owned.values()
    }


def _changes(node: Seen, wishes: _Wishes, policies: Policies, edited: Set[PolicyKey]) -> Iterator[Change]:
    """What differs on one node. A label that two policies want is the one's that has it, else the first's."""
    name, labels = node.view.name, node.view.labels
    for key in sorted({*node.owned, *(key for key, of in wishes.items() if any(name in each.claims for each in of))}):
        owner, before = node.owned.get(key), labels.get(key)
        mine = next((wish for wish in wishes.get(key, ()) if wish.policy == owner), None)
        written = mine is not None and before in mine.values
        if _stays(owner, mine, written, policies):
            continue
        claim = _claimed(name, mine, wishes.get(key, ()))
        if claim is None and owner is not None:
            action = Action(name, key, None, before, owner, _gone(owner, written, policies))
            yield Change(action, at_once=not written or owner in edited, foreign=False)
        elif claim is not None and (claim.value, claim.policy) != (before, owner):
            action = Action(name, key, claim.value, before, claim.policy, claim.reason)
            at_once = claim.policy in edited or claim.value == before or (owner is not None and not written)
            yield Change(action, at_once, foreign=before is not None and owner is None)


def _stays(owner: PolicyKey | None, mine: Wish | None, written: bool, policies: Policies) -> bool:
    """Whether too little is known to change it: of the metrics, or of a policy whose only version is a bad one."""
    if mine is not None and written and mine.stopped:
        return True
    return owner is not None and owner in policies.refused and owner not in policies.used


def _claimed(node: str, mine: Wish | None, every: Sequence[Wish]) -> Claim | None:
    in_order = [*([mine] if mine else []), *every]
    return next((wish.claims[node] for wish in in_order if node in wish.claims), None)


def _gone(owner: PolicyKey, written: bool, policies: Policies) -> str:
    if owner not in policies.used:
        return "there is no such policy any more"
    return "no longer violated" if written else "no rule of the policy writes it any more"


def _patch(node: Seen, actions: Sequence[Action]) -> NodePatch | None:
    """None when nothing changes, not even in the record of what is ours."""
    owned = dict(node.owned)
    for action in actions:
        owned.pop(action.label, None)
        if action.value is not None:
            owned[action.label] = action.policy
    if owned == node.recorded and not actions:
        return None
    seen = tuple(action for action in actions if action.value != action.before)
    labels = {action.label: action.value for action in seen}
    return NodePatch(node.view.name, labels, owned, seen, ownership.write(owned), node.view.resource_version)
