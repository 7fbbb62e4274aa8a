"""Rewards, policies, and what the controller plans."""

from collections.abc import Sequence

from msgspec import Struct

from extender.api.contract.common import ListPage
from extender.api.contract.decisions import SilentReplica
from leadsman.published.plan_summary import PlannedAction


class RewardCell(Struct, frozen=True):
    """How pods of a type fared on a node. value: 0..1, what the score uses. trials, failed: faded to now.

    confidence: 0..1, one less the width of the 90 % interval.
    """

    value: float
    trials: float
    failed: float
    confidence: float


class RewardMatrix(Struct, frozen=True):
    """Pod types by nodes, those with the lowest value or else the most failures first.

    cells: a row for each pod type, with the nodes of this page; null: no evidence.
    """

    pod_types: Sequence[str]
    nodes: ListPage[str]
    cells: Sequence[Sequence[RewardCell | None]]


class PolicyRule(Struct, frozen=True):
    """A rule. kind: filter or score. position: in the policy file. hash: of its content. expression: without macros."""

    kind: str
    name: str
    position: str
    hash: str
    expression: str


class PolicyRow(Struct, frozen=True):
    """A policy. hash: of its content. source: file or object. accepted: whether it is in use. problems: why not.

    differs_from_replica: name of a replica that has another one; "" when none is known to.
    rules: that it has in CEL.
    """

    name: str
    kind: str
    hash: str
    source: str
    accepted: bool
    problems: Sequence[str]
    differs_from_replica: str
    rules: Sequence[PolicyRule] = []


class WithheldAction(Struct, frozen=True):
    """What the controller would do, and does not. reason: why it would. why: why not.

    since: when the leader saw it first.
    """

    kind: str
    object: str
    reason: str
    why: str
    since: str


class Plan(Struct, frozen=True):
    """What the leading controller does, and holds back.

    unknown: why the plan is not known; "": it is, and all below is of it.
    leader: its name; null: unknown.
    at: when it was asked; null: unknown.
    is_dry_run: whether it writes nothing of this.
    stopped: why a policy changes nothing.
    unplanned: what has no plan yet, and why.
    left_out: how many more actions it does or holds back.
    partial: the controllers that did not answer.
    """

    unknown: str
    leader: str | None
    at: str | None
    is_dry_run: bool
    actions: Sequence[PlannedAction]
    withheld: Sequence[WithheldAction]
    stopped: Sequence[str]
    unplanned: Sequence[str]
    left_out: int
    partial: Sequence[SilentReplica]
