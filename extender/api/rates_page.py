"""What this replica decided, and the sum over all replicas."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from extender.api.contract.common import ReasonCount, reason_counts
from extender.api.contract.decisions import SilentReplica
from extender.api.contract.overview import BoundedPod, DecisionRates, LatencyBucket, ReplicaRates
from extender.api.decision_pages import decision_id
from extender.api.decision_rates import Window, rates_of
from extender.api.sources import ApiSources
from extender.journal import MAX_PODS, JournalEntry

MAX_REASONS = 10


def replica_rates(sources: ApiSources, window: Window, bounded_pods: Sequence[BoundedPod]) -> ReplicaRates:
    """Of this replica alone."""
    entries = sources.journal.newest(MAX_PODS)
    return ReplicaRates(
        decision_id(entries[0]) if entries else "",
        window.seconds,
        [LatencyBucket(None if end == inf else end, count) for end, count in sorted(window.buckets.items())],
        _refused_by_reason(entries),
        sources.metrics.neutral_decisions,
        bounded_pods,
    )


def decision_rates(
    own: ReplicaRates, others: Mapping[str, ReplicaRates], partial: Sequence[SilentReplica]
) -> DecisionRates:
    """The sum of this replica's and the others'. partial: those whose numbers are missing."""
    all_rates = [own, *others.values()]
    rates, refused = rates_of([_window(each) for each in all_rates]), Counter[str]()
    for each in all_rates:
        refused.update({reason.reason: reason.count for reason in each.refused_by_reason})
    return DecisionRates(
        round(rates.per_minute, 2),
        _rounded(rates.p50_ms),
        _rounded(rates.p99_ms),
        refused.total(),
        reason_counts(dict(refused.most_common(MAX_REASONS))),
        sum(each.neutral for each in all_rates),
        len(all_rates),
        partial,
    )


def _window(rates: ReplicaRates) -> Window:
    ends = {inf if each.up_to_seconds is None else each.up_to_seconds: each.decisions for each in rates.buckets}
    return Window(rates.window_seconds, ends)


def _refused_by_reason(entries: Iterable[JournalEntry]) -> Sequence[ReasonCount]:
    counts = Counter[str]()
    for entry in entries:
        if entry.filter_result:
            counts.update(refusal.reason for refusal in entry.filter_result.refused.values())
    return reason_counts(counts)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
