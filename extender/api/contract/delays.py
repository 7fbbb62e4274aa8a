"""Delays between nodes and groups of nodes."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from extender.api.contract.common import NumberGrid

NodeNameGroups = Sequence[Sequence[str]]
"""Groups of nodes in which every two are within a delay."""


class DelayGroup(Struct, frozen=True):
    """Nodes that are near each other. nodes: how many."""

    id: str
    label: str
    nodes: int


class OutlierPair(Struct, frozen=True):
    """A measured pair far from the median of its groups. source_group, target_group: places in `groups`."""

    source: str
    target: str
    source_group: int
    target_group: int
    rtt_ms: float
    expected_ms: float


class SlowNode(Struct, frozen=True):
    """A node that is farther from everybody than the nodes of its group. since: null: longer than the history."""

    node: str
    excess_ms: float
    since: str | None
    text: str


class GroupDelays(Struct, frozen=True):
    """Group by group. At most 64 groups.

    median_ms: of measured pairs, else of estimates; low_ms, high_ms: 5th and 95th percentile, or the estimate's 90 %
    interval; measured, lost: pairs; where measured is 0, the numbers are estimates. Rows are the side that measured.
    """

    groups: Sequence[DelayGroup]
    median_ms: NumberGrid
    low_ms: NumberGrid
    high_ms: NumberGrid
    measured: Sequence[Sequence[int]]
    lost: Sequence[Sequence[int]]
    outliers: Sequence[OutlierPair]
    slow_nodes: Sequence[SlowNode]


class DelayCells(Struct, frozen=True):
    """A tile of the node by node matrix, nodes in the order of their groups.

    row_groups, column_groups: id of each row's and column's group.
    kind: "measured", "estimate", "lost" (rtt_ms is then null), "self" or "unknown". Rows are the side that measured.
    """

    total_nodes: int
    row_offset: int
    column_offset: int
    row_names: Sequence[str]
    column_names: Sequence[str]
    row_groups: Sequence[str]
    column_groups: Sequence[str]
    rtt_ms: NumberGrid
    kind: Sequence[Sequence[str]]
    low_ms: NumberGrid
    high_ms: NumberGrid


class DirectedDelay(Struct, frozen=True):
    """One direction of a pair, as its agent measured it. source: "agents". reporter: the node that measured."""

    rtt_ms: float | None
    p95_ms: float | None
    min_ms: float | None
    jitter_ms: float | None
    sent: int
    received: int
    age_seconds: float | None
    source: str
    reporter: str


class LostLink(Struct, frozen=True):
    """A direction of which every probe was lost. back_rtt_ms: the other way; null: lost too, or not probed. text: in
    words."""

    source: str
    target: str
    sent: int
    is_back_lost: bool
    back_rtt_ms: float | None
    text: str


class DelayEstimate(Struct, frozen=True):
    """low_ms..high_ms contain the truth in `coverage` of cases.

    source: "group", "coordinates", "remembered" or "measured".
    """

    rtt_ms: float
    low_ms: float
    high_ms: float
    coverage: float
    source: str


class UsedDelay(Struct, frozen=True):
    """What a decision would use now. reason: where it is from, or why there is none."""

    rtt_ms: float | None
    reason: str


class RttAt(Struct, frozen=True):
    """The slower direction at one moment."""

    at: str
    rtt_ms: float | None


class PairDelays(Struct, frozen=True):
    """What is known between two nodes.

    history: of the last hour, a value a minute, the newest last.
    grafana_url: where more of the past is shown; "": nobody said where.
    """

    a: str
    b: str
    forward: DirectedDelay | None
    backward: DirectedDelay | None
    estimate: DelayEstimate | None
    used: UsedDelay
    history: Sequence[RttAt]
    grafana_url: str


class NodeLayers(Struct, frozen=True):
    """Groups of nodes within so many ms of each other. layers: as "5 ms" → groups; {}: no layers are asked for."""

    layers: Mapping[str, NodeNameGroups]


class NodeWithin(Struct, frozen=True):
    """How one node stands to a bound. basis: "measured", "estimate" or "unknown". reason: why it does not pass."""

    name: str
    rtt_ms: float | None
    low_ms: float | None
    high_ms: float | None
    basis: str
    passes: bool
    reason: str
    x: float | None
    y: float | None


class NodesWithin(Struct, frozen=True):
    """Every node, judged by the filter that kube-scheduler's calls go through."""

    node: str
    bound_ms: float
    items: Sequence[NodeWithin]


class NodeChange(Struct, frozen=True):
    """The node's median round trip at two moments."""

    node: str
    before_ms: float
    after_ms: float
    change_ms: float


class DelayChanges(Struct, frozen=True, rename={"from_": "from"}):
    """The difference between two moments of the history, largest first.

    from, to: the moments that were compared.
    """

    from_: str
    to: str
    items: Sequence[NodeChange]
    next: str | None
    total: int
