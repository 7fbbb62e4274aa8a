"""The words of a plan: what limits it, what it remembers, what it does."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import PolicyKey, TasPolicy
from leadsman.kube.names import OWNERSHIP_ANNOTATION, without_deprecated
from leadsman.planning.labels.ownership import OwnedLabels

HOUR_SECONDS = 3600.0


class LabelLimits(Struct, frozen=True):
    """How much, how fast and how steadily.

    most_marked_ratio: of all nodes that carry a mark (`<policy>=violating`), but one node may always. marks_per_second:
    new marks. hold_seconds: a label stays as it is at least so long. leave_ratio: a violation entered at target T
    stands until 0.8 T (see `rules.still_violates`); 1 switches the hysteresis off. most_flips_per_hour: changes of one
    label on one node, then it is frozen until the first of them is an hour old. least_fresh_ratio: of the nodes that
    report a strategy's metrics; below it the strategy changes nothing. adopt: take over the labels that stand under our
    keys and are not recorded as ours, as the original leaves them behind.
    """

    max_marked_ratio: float = 0.1
    marks_per_second: float = 0.1
    hold_seconds: float = 60.0
    leave_ratio: float = 0.8
    max_flips_per_hour: int = 6
    min_fresh_ratio: float = 0.5
    adopt: bool = False


class LabelHistory(Struct, frozen=True):
    """One label on one node as last seen. value: None: gone. since: monotonic seconds. flips: when it changed."""

    value: str | None
    since: float
    flips: tuple[float, ...] = ()


class PlanMemory(Struct, frozen=True):
    """What a plan must know of those before it. Pass on the newest; a fresh one is safe and only more cautious.

    labels: (node, label key) → how it stood. reported: metric → node → when it last had a current value. policies:
    those of the last plan. marks: what is left of the budget of marks at `at`.
    """

    labels: Mapping[tuple[str, str], LabelHistory] = MappingProxyType({})
    reported_at: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    policies: Mapping[PolicyKey, TasPolicy] = MappingProxyType({})
    mark_budget: float = 1.0
    planned_at: float = float("-inf")


class LabelAction(Struct, frozen=True):
    """One label on one node. value: None: it goes. before: what stood there. reason: for the Event."""

    node: str
    label: str
    value: str | None
    before: str | None
    policy: PolicyKey
    reason: str


class WithheldAction(Struct, frozen=True):
    """What would have been done, and why not now."""

    action: LabelAction
    why: str


class NodePatch(Struct, frozen=True):
    """All that changes on one node, in one request. owned: what is ours afterwards."""

    node: str
    labels: Mapping[str, str | None]
    owned: OwnedLabels
    actions: tuple[LabelAction, ...]
    annotation: str | None
    resource_version: str = ""

    def body(self) -> bytes:
        """As application/merge-patch+json. With a resourceVersion, a node that has changed is answered with 409."""
        version = {"resourceVersion": self.resource_version} if self.resource_version else {}
        metadata = {
            "labels": self.labels,
            "annotations": without_deprecated({OWNERSHIP_ANNOTATION: self.annotation}),
            **version,
        }
        return msgspec.json.encode({"metadata": metadata})


class LabelPlan(Struct, frozen=True):
    """patches: one a node. stopped: why a policy changes nothing now. memory: for the next plan."""

    patches: tuple[NodePatch, ...]
    withheld: tuple[WithheldAction, ...]
    stopped: tuple[str, ...]
    memory: PlanMemory

    @property
    def actions(self) -> tuple[LabelAction, ...]:
        return tuple(action for patch in self.patches for action in patch.actions)
