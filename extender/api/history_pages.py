"""Delays of the past, from Prometheus where it answers, else from the memory of this process. Both say which."""

from collections.abc import Mapping, Sequence

import numpy as np

from extender.api.cluster_view import ClusterView
from extender.api.contract.delays import (
    HOUR,
    DelayChanges,
    GroupChange,
    HistoryOrigin,
    NodeChange,
    PairChange,
    PairChanges,
    PairHistory,
    RttAt,
)
from extender.api.delay_table import grouped_median
from extender.api.history import MINUTE_SECONDS, DelayHistory, MomentMedians
from extender.api.moments import iso
from extender.api.node_rows import number_or_none
from extender.api.parameters import ListQuery, RequestError
from extender.api.prometheus_queries import MomentChanges, PairSeries, Unanswered

NOT_ASKED = Unanswered("")
"""No Prometheus is configured."""

_NO_PAIRS = "which pairs changed is known by Prometheus alone; name one with --prometheus-url"

_AN_HOUR = "a replica remembers an hour of a pair; name a Prometheus with --prometheus-url to see more"


def pair_history(own: DelayHistory, a: str, b: str, span_seconds: int, answer: PairSeries | Unanswered) -> PairHistory:
    """answer: of Prometheus."""
    if isinstance(answer, PairSeries):
        moments, origin = answer.moments, HistoryOrigin("prometheus", None, answer.step_seconds, "")
    else:
        moments = own.of_pair(a, b)
        note = answer.reason or (_AN_HOUR if span_seconds > HOUR else "")
        origin = HistoryOrigin("replica", iso(own.since), int(MINUTE_SECONDS), note)
    return PairHistory(a, b, origin, [RttAt(iso(moment.at), moment.rtt_ms) for moment in moments])


def delay_changes(
    view: ClusterView,
    own: DelayHistory,
    before: float,
    after: float,
    answer: MomentChanges | Unanswered,
    page: ListQuery,
) -> DelayChanges:
    """before, after: Unix seconds. answer: of Prometheus on these moments. RequestError 404 when nothing is known."""
    if isinstance(answer, MomentChanges):
        return _changes(view, answer.before, answer.after, HistoryOrigin("prometheus", None, None, ""), page)
    begin, end = own.medians_at(before), own.medians_at(after)
    if begin is None or end is None:
        raise RequestError(404, answer.reason or "the history has no moment yet: it begins with the extender's start")
    origin = HistoryOrigin("replica", iso(own.since), None, answer.reason)
    return _changes(view, begin, end, origin, page)


def pair_changes(view: ClusterView, answer: Sequence[PairChange] | Unanswered) -> PairChanges:
    """Those whose nodes are there now. answer: of Prometheus."""
    if isinstance(answer, Unanswered):
        return PairChanges(None, answer.reason or _NO_PAIRS)
    return PairChanges([each for each in answer if {each.source, each.target} <= view.table.index.keys()], "")


def _changes(
    view: ClusterView,
    before: MomentMedians,
    after: MomentMedians,
    origin: HistoryOrigin,
    query: ListQuery,
) -> DelayChanges:
    """Nodes that have a median at both moments, the largest change first."""
    both = [node for node in view.table.names if node in before.by_node and node in after.by_node]
    changes = [_node_change(node, before.by_node[node], after.by_node[node]) for node in both]
    page = query.page(sorted(changes, key=lambda each: (-abs(each.change_ms), each.node)))
    medians = [_group_medians(view, moment.by_node) for moment in (before, after)]
    groups = [GroupChange(*each) for each in zip(view.grouping.ids, *medians, strict=True)]
    return DelayChanges(iso(before.at), iso(after.at), origin, page.items, page.next, page.total, groups)


def _node_change(node: str, before_ms: float, after_ms: float) -> NodeChange:
    return NodeChange(node, round(before_ms, 3), round(after_ms, 3), round(after_ms - before_ms, 3))


def _group_medians(view: ClusterView, by_node: Mapping[str, float]) -> list[float | None]:
    values = np.array([by_node.get(name, np.nan) for name in view.table.names], float)
    return number_or_none(grouped_median(view.grouping.group_of, values, len(view.grouping.ids)))
