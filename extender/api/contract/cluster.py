"""Rewards and policies."""

from collections.abc import Sequence

from msgspec import Struct

from extender.api.contract.common import ListPage


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


class PolicyRow(Struct, frozen=True):
    """A policy. hash: of its content. source: file or object. accepted: whether it is in use. problems: why not."""

    name: str
    kind: str
    hash: str
    source: str
    accepted: bool
    problems: Sequence[str]
