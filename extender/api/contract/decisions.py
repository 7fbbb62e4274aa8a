"""Decisions on pods, and the two requests that a person can make."""

from collections.abc import Sequence

from msgspec import Struct

from extender.api.contract.common import ListPage, ReasonCount


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


class ScorePart(Struct, frozen=True):
    """What one plugin adds to a node's score: `points` of 10. reason: why the node has no value of its own."""

    name: str
    points: float
    reason: str


class DecidedNode(Struct, frozen=True):
    """One node's part in the decision. reason: of a refusal, with its delays. score: 0..10; null: not scored."""

    node: str
    passed: bool
    reason: str
    score: int | None
    parts: Sequence[ScorePart]


class DecisionDetail(DecisionRow, frozen=True):
    """A decision with its nodes, the best first; with `search`, those whose name or reason has the text.

    fixes: what would let the pod pass, or improve its place.
    """

    headline: str
    nodes: ListPage[DecidedNode]
    runner_up: str | None
    fixes: Sequence[str]


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
