"""Rewards, policies, and what the controller plans."""

from collections.abc import Sequence

from msgspec import Struct

from extender.api.contract.common import ListPage


class RewardCell(Struct, frozen=True):
    """How pods of a type fared on a node. value: 0..1. confidence: 0..1, one less the width of the 90 % interval."""

    value: float
    trials: float
    confidence: float


class RewardMatrix(Struct, frozen=True):
    """Pod types by nodes. cells: a row for each pod type, with the nodes of this page; null: no evidence."""

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
    rules: Sequence[PolicyRule] = ()


class PlannedAction(Struct, frozen=True):
    """What the controller does."""

    kind: str
    object: str
    reason: str


class WithheldAction(Struct, frozen=True):
    """What the controller would do, and what it waits for."""

    kind: str
    object: str
    reason: str
    since: str | None


class Plan(Struct, frozen=True):
    """leader: the controller that leads; null: not known here."""

    leader: str | None
    actions: Sequence[PlannedAction]
    withheld: Sequence[WithheldAction]
