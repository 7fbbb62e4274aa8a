"""What this replica decided lately: how often and how fast, what was refused, and which bounded pods wait for a node.

It is sampled every few seconds: a rate is the difference of a histogram's counts at two moments, and since when a pod
waits is known by having seen each of its attempts.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import pairwise

from msgspec import Struct

from extender.api.contract.common import reason_counts
from extender.api.contract.overview import DecisionRates, WaitingPods
from extender.api.sources import ApiSources
from extender.journal import MAX_PODS, JournalEntry

WINDOW_SECONDS = 60.0
MAX_REASONS = 10

FORGET_SECONDS = 400.0
"""kube-scheduler tries a pod again after 300 s at the latest: one that it does not try any more is placed or gone."""

CumulativeBuckets = Mapping[float, float]
"""Upper end in seconds → observations up to it since start; the last end is infinite."""


class TriedPod(Struct, frozen=True):
    """A pod with delay bounds, and the attempts to place it.

    name: as namespace/name. refused_since: the first in a row that no node passed; None: a node passed the last one.
    tried_at: the last one. All are monotonic seconds.
    """

    name: str
    refused_since: float | None
    tried_at: float


class DecisionCounts:
    """`sample` it every few seconds. newest: the decision that was made last; None: none is kept."""

    def __init__(self, sources: ApiSources) -> None:
        self._sources = sources
        self._samples = deque[tuple[float, CumulativeBuckets]]()
        self._tried: Mapping[str, TriedPod] = {}
        self.newest: JournalEntry | None = None

    def sample(self) -> None:
        now, entries = self._sources.inputs.clock(), self._sources.journal.newest(MAX_PODS)
        self._samples.append((now, self._sources.metrics.request_buckets("filter")))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW_SECONDS:
            self._samples.popleft()
        self._tried = tried_pods(self._tried, reversed(entries), now)
        self.newest = entries[0] if entries else None

    def rates(self) -> DecisionRates:
        """Of the last WINDOW_SECONDS; what was refused: by the decisions that are kept."""
        seconds, buckets = self._window()
        refused = Counter[str]()
        for entry in self._sources.journal.newest(MAX_PODS):
            if entry.filter_result:
                refused.update(refusal.reason for refusal in entry.filter_result.refused.values())
        return DecisionRates(
            round(60 * max(buckets.values(), default=0.0) / seconds, 2) if seconds else 0.0,
            quantile_ms(buckets, 0.5),
            quantile_ms(buckets, 0.99),
            refused.total(),
            reason_counts(dict(refused.most_common(MAX_REASONS))),
            self._sources.metrics.decisions,
            self._sources.metrics.neutral_decisions,
        )

    def _window(self) -> tuple[float, CumulativeBuckets]:
        """Seconds between the oldest and the newest sample, and what was observed between them."""
        if len(self._samples) < 2:
            return 0.0, {}
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return ended - began, {end: count - before.get(end, 0.0) for end, count in after.items()}

    def waiting(self) -> WaitingPods:
        """By this replica's attempts: where another one placed a pod since, it counts here for FORGET_SECONDS."""
        waiting = {each.name: each.refused_since for each in self._tried.values() if each.refused_since is not None}
        if not waiting:
            return WaitingPods(0, None, None)
        longest = min(waiting, key=lambda name: waiting[name])
        return WaitingPods(len(waiting), round(self._sources.inputs.clock() - waiting[longest], 1), longest)


def tried_pods(before: Mapping[str, TriedPod], entries: Iterable[JournalEntry], now: float) -> Mapping[str, TriedPod]:
    """Maps UIDs to pods, by the journal's entries and what was known before."""
    tried = dict(before)
    for entry in entries:
        pod = entry.pod
        if not pod.has_delay_bounds or entry.filter_result is None:
            continue
        refused_since = None
        if not entry.filter_result.kept:
            known = tried.get(pod.uid)
            refused_since = entry.decided_at if known is None or known.refused_since is None else known.refused_since
        tried[pod.uid] = TriedPod(f"{pod.namespace}/{pod.name}", refused_since, entry.decided_at)
    return {uid: pod for uid, pod in tried.items() if now - pod.tried_at < FORGET_SECONDS}


def quantile_ms(buckets: CumulativeBuckets, quantile: float) -> float | None:
    """As Prometheus' histogram_quantile: linear within a bucket; above the last finite end that end. None: empty."""
    total = max(buckets.values(), default=0.0)
    if not total:
        return None
    rank = quantile * total
    for (low, below), (high, upto) in pairwise([(0.0, 0.0), *sorted(buckets.items())]):
        if upto >= rank:
            seconds = low if high == float("inf") else low + (high - low) * (rank - below) / (upto - below)
            return round(1000 * seconds, 3)
    return None
