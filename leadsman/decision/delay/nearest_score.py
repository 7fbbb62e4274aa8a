"""Nearest first, among the nodes that keep a pod's delay bounds.

RTTs spread over powers of ten, so the scale is relative: 1 at 0 ms, 1/2 at the candidates' median, 1/5 at
twice that, x → 1 / (1 + (x / median)²). The steepest part lies where most candidates are, a far outlier or
a liar does not move it, and a lower RTT of a node never lowers its own value. Several bounds: the mean. To all
replicas of a workload the farthest counts, else the nearest. What was not measured counts as estimated.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from statistics import fmean

import numpy as np

from leadsman.decision.columns import Column, missing_nodes, select_column
from leadsman.decision.delay import bounds, rtt_table
from leadsman.decision.delay.bounds import ReplicaMode
from leadsman.decision.delay.explain_delay import REASON_TEMPLATES
from leadsman.decision.delay.rtt_table import DelayCause
from leadsman.decision.delay.targets import Target, resolve_target
from leadsman.decision.freshness import cached_while_fresh
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo

NAME = "nearest"

MIN_MEDIAN_MS = 0.05
"""The least median: below it differences are noise of the measurement."""


class NearestScore:
    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], facts: DecisionInputs) -> PluginScore | None:
        weight, wanted = facts.policy.scores.nearest.weight, bounds.valid_bounds(pod)
        if not (weight and wanted):
            return None
        resolved = [resolve_target(bound, pod, nodes, facts) for bound in wanted]
        to = [referent for referent in resolved if isinstance(referent, Target) and referent.nodes]
        if not to:
            return None
        tables = {referent.name: target_rtts(referent, facts) for referent in to}
        columns = {name: select_column(nodes, table) for name, table in tables.items()}
        unknown = {
            node: REASON_TEMPLATES[DelayCause.UNMEASURED].format(name)
            for name, column in columns.items()
            for node in missing_nodes(nodes, column, tables[name])
        }
        return PluginScore(NAME, weight, _mean([_values(column) for column in columns.values()]), unknown)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], facts: DecisionInputs) -> Evidence:
        """Nothing that the delay filter has not told."""
        return Evidence()


def target_rtts(referent: Target, facts: DecisionInputs) -> Mapping[str, float]:
    """Node → ms, measured or estimated, of all nodes with which there is any."""
    key = ("rtts", referent.nodes, referent.replicas, facts.policy.delay)
    join = _farthest if referent.replicas is ReplicaMode.ALL else _nearest
    return cached_while_fresh(
        key, lambda: reduce(join, (_reference_rtts(node, facts) for node in referent.nodes)), facts
    )


def _reference_rtts(reference: str, facts: DecisionInputs) -> Mapping[str, float]:
    row, known = rtt_table.estimated_row(reference, facts), rtt_table.measured_row(reference, facts).rtt_ms
    return {**dict(zip(row.nodes, row.rtt_ms, strict=True)), **known} if row.nodes else known


def _farthest(one: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    return {node: max(one[node], other[node]) for node in one.keys() & other.keys()}


def _nearest(one: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    return {**one, **{node: min(ms, one.get(node, ms)) for node, ms in other.items()}}


def _values(known: Column) -> Column:
    square = max(float(np.median(known.numbers)), MIN_MEDIAN_MS) ** 2 if known else 1.0
    return Column(known.nodes, square / (square + known.numbers**2))


def _mean(values: Sequence[Column]) -> Mapping[str, float]:
    """Only of the nodes that have all."""
    first, *others = values
    if all(other.nodes is first.nodes for other in others):
        return Column(first.nodes, np.mean([each.numbers for each in values], axis=0)) if others else first
    return {node: fmean(each[node] for each in values) for node in first if all(node in other for other in others)}
