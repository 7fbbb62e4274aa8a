"""Defines what the label plan is made of: what a node records, limits, memory, actions.

Which labels of a node are ours is in an annotation with label key → namespace/name of its policy. Only a recorded label
is ever changed or removed, and only if its key is one that the named policy could have written, so that a forged
annotation does not make us remove other labels. When they changed lately is in another annotation: the leader remembers
it too, but the next leader would allow the same changes once more.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX, PolicyKey, TasPolicy
from leadsman.kube.names import CHANGES_ANNOTATION, OWNERSHIP_ANNOTATION
from leadsman.runtime.decode_errors import UNREADABLE


class BadOwnership(ValueError):
    """The annotation cannot be parsed. The node is left alone until the annotation is fixed or removed."""


class NodeView(Struct, frozen=True):
    """Says what the label plan uses of a Node object.

    resource_version: the patch requires that it is still this one.
    excess: which of the node's labels and annotations are missing here, because there are too many; "": none is.
    """

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    resource_version: str = ""
    excess: str = ""


OwnedLabels = Mapping[str, PolicyKey]
"""Maps each label key to its policy."""

_decode_ownership = msgspec.json.Decoder(dict[str, str]).decode


def parse_ownership(node: NodeView) -> OwnedLabels:
    """Returns the labels that the node's annotation records as ours. Raises BadOwnership."""
    try:
        owners = _decode_ownership(node.annotations.get(OWNERSHIP_ANNOTATION, "{}"))
        recorded = {key: PolicyKey(*owner.split("/", 1)) for key, owner in owners.items()}
    except (*UNREADABLE, TypeError) as error:
        raise BadOwnership(
            f"annotation {OWNERSHIP_ANNOTATION} of node {node.name} cannot be parsed; fix or remove it: {error}"
        ) from error
    return {
        key: owner
        for key, owner in recorded.items()
        if key == mark_key(owner) or key.startswith(label_key(owner, ""))  # the policy could have written it
    }


def mark_key(policy: PolicyKey) -> str:
    """Returns the key of the label that the policy's deschedule strategy sets."""
    return policy.name


def label_key(policy: PolicyKey, key: str) -> str:
    """Returns the key of a label that the policy's labeling strategy sets."""
    return f"{LABEL_PREFIX}{policy.name}/{key}"


MAX_LABELS = 64
"""A node's record names this many labels: some 10 KB at most."""

MAX_TIMES = 16
"""A record keeps this many times of a label, the newest; more than the limit of an hour lets through."""

_decode_changes = msgspec.json.Decoder(dict[str, list[float]]).decode


def parse_changes(node: NodeView, wall_now: float) -> Iterator[tuple[str, Sequence[float]]]:
    """Label key → how many seconds ago it changed, each time; the label may be gone by now. wall_now: unix seconds.

    A time to come, from a clock that went wrong, counts as now. A record that cannot be read says nothing: it only
    holds changes back.
    """
    try:
        recorded = _decode_changes(node.annotations.get(CHANGES_ANNOTATION, "{}"))
    except UNREADABLE:
        return
    for key, times in recorded.items():
        yield key, [max(0.0, wall_now - at) for at in times[-MAX_TIMES:]]


def format_changes(changed_at: Mapping[str, Sequence[float]]) -> str | None:
    """Returns the annotation's value; None: nothing changed. changed_at: label key → unix seconds.

    Of more than MAX_LABELS, those that changed most: they are the ones to hold back.
    """
    by_changes = sorted(changed_at, key=lambda key: (-len(changed_at[key]), key))
    times = {
        key: [round(at) for at in changed_at[key][-MAX_TIMES:]]
        for key in sorted(by_changes[:MAX_LABELS])
        if changed_at[key]
    }
    return msgspec.json.encode(times).decode() if times else None


HOUR_SECONDS = 3600.0


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


class LabelLimits(Struct, frozen=True):
    """Says how much, how fast and how often labels may change.

    max_marked_ratio: share of all nodes that may carry a mark (`<policy>=violating`); one node always may.
    marks_per_second: new marks.
    hold_seconds: a label is not changed again for at least this long.
    leave_ratio: a violation entered at target T lasts until 0.8 T (`rules.still_violates`); 1 switches hysteresis off.
    max_flips_per_hour: changes of one label on one node; then it stays until the first of them is an hour old.
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
    """Says what a plan needs from earlier plans. Pass the newest; an empty one is safe and only more cautious.

    labels: (node, label key) → its history.
    reported_at: metric → node → when it last had a current value.
    policies: those of the last plan.
    mark_budget: new marks that were left at `planned_at`.
    planned_at: monotonic seconds of the last plan.
    began_at: of the first.
    """

    labels: Mapping[tuple[str, str], LabelHistory] = {}
    reported_at: Mapping[str, Mapping[str, float]] = {}
    policies: Mapping[PolicyKey, TasPolicy] = {}
    mark_budget: float = 1.0
    planned_at: float = float("-inf")
    began_at: float = float("inf")


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
    changed_at: Mapping[str, Sequence[float]] = {}
    wall_now: float | None = None

    @property
    def annotation(self) -> str | None:
        """Returns the record of what is ours afterwards; None: it is removed."""
        owners = {key: str(self.owned[key]) for key in sorted(self.owned)}
        return msgspec.json.encode(owners).decode() if owners else None

    @property
    def policies(self) -> tuple[PolicyKey, ...]:
        """Returns those that change something, in order."""
        return tuple(sorted({*(action.policy for action in self.actions), *self._changed_owners().values()}))

    def of_policy(self, policy: PolicyKey, owned: OwnedLabels, resource_version: str) -> "NodePatch":
        """Returns the changes of one policy alone, on a node that has `owned` and `resource_version` by now."""
        actions = tuple(action for action in self.actions if action.policy == policy)
        after = dict(owned)
        for key in (key for key, owner in self._changed_owners().items() if owner == policy):
            after.pop(key, None)
            if key in self.owned:
                after[key] = policy
        labels = {action.label: action.value for action in actions}
        return NodePatch(self.node, labels, after, actions, owned, resource_version, self.changed_at, self.wall_now)

    def _changed_owners(self) -> Mapping[str, PolicyKey]:
        """Maps each label key to its policy, or the last one of a key that is ours no more, where that changes."""
        before, after = self.owned_before, self.owned
        changed = (key for key in {*before, *after} if before.get(key) != after.get(key))
        return {key: after.get(key) or before[key] for key in changed}

    def body(self) -> bytes:
        """Returns the body, as application/merge-patch+json. With a resourceVersion, a node that has changed gives
        409."""
        version = {"resourceVersion": self.resource_version} if self.resource_version else {}
        metadata = {
            "labels": self.labels,
            "annotations": {OWNERSHIP_ANNOTATION: self.annotation} | self._record(),
            **version,
        }
        return msgspec.json.encode({"metadata": metadata})

    def _record(self) -> dict[str, str | None]:
        """Returns the annotation that says when labels changed, the changes made here included."""
        if self.wall_now is None:
            return {}
        now_too = {each.label: (*self.changed_at.get(each.label, ()), self.wall_now) for each in self.actions}
        record = format_changes({**self.changed_at, **now_too})
        return {CHANGES_ANNOTATION: record} if record else {}


class LabelPlan(Struct, frozen=True):
    """Patches of nodes that are to be made now.

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
        """Returns the actions of all patches."""
        return tuple(action for patch in self.patches for action in patch.actions)
