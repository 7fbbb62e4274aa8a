"""The overview, made of what the other parts know."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from extender.api.cluster_view import ClusterView
from extender.api.contract.common import Problem
from extender.api.contract.overview import (
    DecisionRates,
    Features,
    NodeCounts,
    Overview,
    PairCounts,
    WaitingPods,
    WorstChange,
)
from extender.api.delay_pages import moved_text
from extender.api.health_checks import run_checks
from extender.api.history import NodeShift
from extender.api.moments import iso
from extender.api.node_rows import STATUS
from extender.api.sources import ApiSources
from extender.metrics import state_age_seconds
from leadsman.runtime.version import VERSION


def overview(
    sources: ApiSources,
    view: ClusterView,
    decisions: DecisionRates,
    waiting: WaitingPods,
    shifts: Sequence[NodeShift],
    history_since: float,
) -> Overview:
    return Overview(
        at=iso(view.at),
        replica=sources.replica,
        version=VERSION,
        cluster=view.snapshot.cluster_id,
        revision=view.snapshot.revision,
        newest_report_seconds=state_age_seconds(view.snapshot, view.inputs.now),
        history_since=iso(history_since),
        nodes=_node_counts(view),
        pairs=_pair_counts(view),
        worst_change=_worst_change(shifts),
        decisions=decisions,
        waiting=waiting,
        certificates=sources.certificates,
        problems=[
            Problem(each.name, each.severity, each.text, each.what_to_do)
            for each in run_checks(sources, view, waiting, shifts)
            if not each.ok
        ],
        features=Features(
            rewards=bool(view.snapshot.rewards),
            measure=sources.request_probes is not None,
            what_if=True,
        ),
    )


def _node_counts(view: ClusterView) -> NodeCounts:
    counts = Counter(STATUS[state.freshness(view.inputs.now)] for state in view.snapshot.nodes.values())
    return NodeCounts(**{status: counts[status] for status in STATUS.values()})


def _pair_counts(view: ClusterView) -> PairCounts:
    """Unordered pairs; lost: directions. A pair that either end measured is measured."""
    table = view.table
    low, high = np.minimum(table.source, table.target), np.maximum(table.source, table.target)
    pairs = low.astype(np.int64) * len(table.names) + high
    measured = np.unique(pairs[~table.is_lost])
    return PairCounts(len(measured), max(0, view.estimates.pairs - len(measured)), len(view.dead_links))


def _worst_change(shifts: Sequence[NodeShift]) -> WorstChange | None:
    if not shifts:
        return None
    worst = shifts[0]
    return WorstChange(worst.node, round(worst.shift_ms, 3), iso(worst.since), moved_text(worst))
