"""The terms of the label plan: its limits, its memory, its actions."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import PolicyKey, TasPolicy
from leadsman.kube.names import CHANGES_ANNOTATION, OWNERSHIP_ANNOTATION
from leadsman.planning.labels.change_record import format_changes
from leadsman.planning.labels.ownership import OwnedLabels, format_ownership

HOUR_SECONDS = 3600.0


class LabelLimits(Struct, frozen=True):
    """How much, how fast and how often labels may change.

    max_marked_ratio: share of all nodes that may carry a mark (`<policy>=violating`); one node always may.
    marks_per_second: new marks.
    hold_seconds: a label is not changed again for at least this long.
    leave_ratio: a violation entered at target T lasts until 0.8 T (`rules.still_violates`); 1 switches hysteresis off.
    max_flips_per_hour: changes of one label on one node; then it stays until the first of them is an hour old. It is
        also the limit of all labels of a node together, not counting each one's first change in the hour.
    min_fresh_ratio: of the nodes that report a strategy's metrics; below it the strategy changes nothing.
    adopt: take over labels under our keys that are not recorded as ours, as Telemetry Aware Scheduling leaves them.
    """

    max_marked_ratio: float = 0.1
    marks_per_second: float = 0.1
    hold_seconds: float = 60.0
    leave_ratio: float = 0.8
    max_flips_per_hour: int = 6
    min_fresh_ratio: float = 0.5
    adopt: bool = False


class LabelHistory(Struct, frozen=True):
    """One label on one node as last observed.

    value: None: removed.
    since: monotonic seconds of its last change.
    flips: monotonic seconds of its changes within the last hour.
    """

    value: str | None
    since: float
    flips: tuple[float, ...] = ()


class PlanMemory(Struct, frozen=True):
    """What a plan needs from earlier plans. Pass the newest; an empty one is safe and only more cautious.

    labels: (node, label key) → its history.
    reported_at: metric → node → when it last had a current value.
    policies: those of the last plan.
    mark_budget: new marks that were left at `planned_at`.
    planned_at: monotonic seconds of the last plan.
    """

    labels: Mapping[tuple[str, str], LabelHistory] = MappingProxyType({})
    reported_at: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    policies: Mapping[PolicyKey, TasPolicy] = MappingProxyType({})
    mark_budget: float = 1.0
    planned_at: float = float("-inf")


class LabelAction(Struct, frozen=True):
    """Sets or removes one label of one node.

    value: None: remove it.
    before: its value until now; None: the node has not got it.
    reason: for the Event.
    """

    node: str
    label: str
    value: str | None
    before: str | None
    policy: PolicyKey
    reason: str


class WithheldAction(Struct, frozen=True):
    """An action that is not taken now, and why.

    foreign: the label is not recorded as ours, and stays.
    """

    action: LabelAction
    why: str
    foreign: bool = False


class NodePatch(Struct, frozen=True):
    """All changes of one node, in one request.

    owned: which labels are ours afterwards. owned_before: until now.
    resource_version: the node must still have this one; "": any.
    changed_at: label key → unix seconds of its earlier changes within the hour.
    wall_now: unix seconds of the changes made here; None: no record of changes is kept.
    """

    node: str
    labels: Mapping[str, str | None]
    owned: OwnedLabels
    actions: tuple[LabelAction, ...]
    owned_before: OwnedLabels = {}
    resource_version: str = ""
    changed_at: Mapping[str, Sequence[float]] = MappingProxyType({})
    wall_now: float | None = None

    @property
    def annotation(self) -> str | None:
        """The record of what is ours afterwards; None: it is removed."""
        return format_ownership(self.owned)

    @property
    def policies(self) -> tuple[PolicyKey, ...]:
        """Those that change something, in order."""
        return tuple(sorted({*(action.policy for action in self.actions), *self._changed_owners().values()}))

    def of_policy(self, policy: PolicyKey, owned: OwnedLabels, resource_version: str) -> "NodePatch":
        """The changes of one policy alone, on a node that has `owned` and `resource_version` by now."""
        actions = tuple(action for action in self.actions if action.policy == policy)
        after = dict(owned)
        for key in (key for key, owner in self._changed_owners().items() if owner == policy):
            after.pop(key, None)
            if key in self.owned:
                after[key] = policy
        labels = {action.label: action.value for action in actions}
        return NodePatch(self.node, labels, after, actions, owned, resource_version, self.changed_at, self.wall_now)

    def _changed_owners(self) -> Mapping[str, PolicyKey]:
        """Label key → its policy, or the last one of a key that is ours no more, where that changes."""
        before, after = self.owned_before, self.owned
        changed = (key for key in {*before, *after} if before.get(key) != after.get(key))
        return {key: after.get(key) or before[key] for key in changed}

    def body(self) -> bytes:
        """The body, as application/merge-patch+json. With a resourceVersion, a node that has changed gives 409."""
        version = {"resourceVersion": self.resource_version} if self.resource_version else {}
        metadata = {
            "labels": self.labels,
            "annotations": {OWNERSHIP_ANNOTATION: self.annotation} | self._record(),
            **version,
        }
        return msgspec.json.encode({"metadata": metadata})

    def _record(self) -> dict[str, str | None]:
        """The annotation that says when labels changed, the changes made here included."""
        if self.wall_now is None:
            return {}
        now_too = {each.label: (*self.changed_at.get(each.label, ()), self.wall_now) for each in self.actions}
        record = format_changes({**self.changed_at, **now_too})
        return {CHANGES_ANNOTATION: record} if record else {}


class LabelPlan(Struct, frozen=True):
    """What to do now.

    patches: one for each node that changes.
    withheld: what the limits do not allow now.
    stopped: why a policy changes nothing now.
    memory: for the next plan.
    """

    patches: tuple[NodePatch, ...]
    withheld: tuple[WithheldAction, ...]
    stopped: tuple[str, ...]
    memory: PlanMemory

    @property
    def actions(self) -> tuple[LabelAction, ...]:
        """The actions of all patches."""
        return tuple(action for patch in self.patches for action in patch.actions)
