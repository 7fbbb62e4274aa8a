"""Decisions on pods, and the two requests that a person can make."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from extender.api.contract.common import ReasonCount
from extender.api.contract.delays import NodeNameGroups
from leadsman.decision.explain import Explanation
from leadsman.published.backups import PodBackup


class NodeScore(Struct, frozen=True):
    """score: 0..10."""

    node: str
    score: int


class DecisionRow(Struct, frozen=True):
    """One decision.

    kind: "filter" (nodes were refused or passed) or "prioritize" (and scored).
    asked, passed: nodes.
    best: the first few nodes by score.
    neutral: why all scores are alike; "" when they are not.
    """

    id: str
    at: str
    replica: str
    pod: str
    pod_uid: str
    kind: str
    asked: int
    passed: int
    refused_by_reason: Sequence[ReasonCount]
    best: Sequence[NodeScore]
    neutral: str


class DecisionDetail(Struct, frozen=True):
    """A decision with its explanation.

    seconds_ago: since it was made; replicas' clocks may differ.
    explanation: its nodes are a page of all, the best first; with `search` of those whose name or reason has the text.
    next: the cursor of the next page; null: this is the last. total: nodes of all pages.
    fixes: what would let the pod pass.
    node_groups: layer, as "5 ms" → groups of the nodes that passed. backup: of the pod; null: nothing is known of it.
    Both are as they are now, not when it was decided.
    """

    decision: DecisionRow
    seconds_ago: float
    explanation: Explanation
    next: str | None
    total: int
    fixes: Sequence[str]
    node_groups: Mapping[str, NodeNameGroups]
    backup: PodBackup | None


class WhatIfRequest(Struct, frozen=True):
    """yaml: a pod, or a workload with a pod template."""

    yaml: str


class MeasureRequest(Struct, frozen=True):
    """source: the node that measures."""

    source: str
    target: str


class MeasureResponse(Struct, frozen=True):
    """reason: why it was not accepted; "" when it was."""

    accepted: bool
    reason: str
