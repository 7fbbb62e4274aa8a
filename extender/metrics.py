"""The extender's metrics about itself. A scrape reads memory only."""

import time
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from leadsman.runtime.scrape import FamiliesCollector, FamilySource, create_registry
from leadsman.state.snapshot import Freshness, Snapshot

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 10.0)
"""From a pod that no plugin applies to, past the 200 ms deadline, to kube-scheduler's longest timeouts."""


SCHEDULER_VERBS = ("filter", "prioritize", "preempt", "bind")
"""What kube-scheduler asks for; other paths are read by people."""


class ExtenderMetrics:
    """Metrics of requests and decisions. Their series are bounded: no label holds a node or a pod.

    Decisions have a result: kept (filter let all nodes pass), restricted (some), refused (none), ranked, equal (all
    scores alike), neutral (no decision). Their reason is the refusing plugin, or of neutral ones: overran, fault.
    """

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        """wall_clock: Unix seconds."""
        self._wall_clock = wall_clock
        self.registry = registry = create_registry()
        self._requests = Histogram(
            "leadsman_extender_request_duration_seconds",
            "Seconds from a request's headers to its response.",
            ["verb", "code"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._decisions = Counter(
            "leadsman_extender_decisions_total",
            "Decisions by verb, result and reason (the refusing plugin; overran or fault when neutral).",
            ["verb", "result", "reason"],
            registry=registry,
        )
        self._last_request = Gauge(
            "leadsman_extender_last_request_timestamp_seconds",
            "Unix time of kube-scheduler's last call, by verb.",
            ["verb"],
            registry=registry,
        )
        self.missing_policies = Counter(
            "leadsman_telemetry_missing_policy_total",
            "Filter calls for pods whose label telemetry-policy names no valid policy in their namespace.",
            registry=registry,
        )

        self.protected_placeholders = Counter(
            "leadsman_extender_protected_placeholders_total",
            "Placeholders that kube-scheduler proposed to evict for pods that they do not stand for, and that stay.",
            registry=registry,
        )

    def observe_request(self, verb: str, code: int, seconds: float) -> None:
        self._requests.labels(verb, str(code)).observe(seconds)
        if verb in SCHEDULER_VERBS:
            self._last_request.labels(verb).set(self._wall_clock())

    def count_decision(self, verb: str, result: str, reason: str = "") -> None:
        self._decisions.labels(verb, result, reason).inc()

    @property
    def decisions(self) -> int:
        """Since start."""
        return int(sum(value for _, value in self._samples(self._decisions, "_total")))

    @property
    def neutral_decisions(self) -> int:
        """Decisions without the plugins, since start."""
        samples = self._samples(self._decisions, "_total")
        return int(sum(value for labels, value in samples if labels["result"] == "neutral"))

    def request_buckets(self, verb: str) -> Mapping[float, float]:
        """Upper end of a bucket in seconds → requests of this verb up to it, since start."""
        buckets = defaultdict[float, float](float)
        for labels, value in self._samples(self._requests, "_bucket"):
            if labels["verb"] == verb:
                buckets[float(labels["le"])] += value
        return buckets

    @staticmethod
    def _samples(metric: Counter | Histogram, suffix: str) -> Iterator[tuple[Mapping[str, str], float]]:
        for family in metric.collect():
            yield from ((each.labels, each.value) for each in family.samples if each.name.endswith(suffix))

    def add_collector(self, source: FamilySource) -> None:
        """Adds what `source` yields at each scrape."""
        self.registry.register(FamiliesCollector(source))


def state_metrics(snapshot: Snapshot, now: float) -> Iterator[Metric]:
    """Metrics of the state. now: monotonic seconds on the clock of the snapshot's ages."""
    yield GaugeMetricFamily("leadsman_state_problems", "Records in etcd that cannot be read.", len(snapshot.problems))
    yield CounterMetricFamily(
        "leadsman_state_dropped_records", "Records in etcd ignored because their node has too many.", snapshot.dropped
    )
    yield GaugeMetricFamily(
        "leadsman_state_crowded_nodes",
        "Nodes of which records are ignored, named by leadsman state.",
        snapshot.crowded_nodes,
    )
    nodes = GaugeMetricFamily("leadsman_state_nodes", "Nodes in the state.", labels=["freshness"])
    tally = Tally(state.freshness(now) for state in snapshot.nodes.values())
    for freshness in Freshness:
        nodes.add_metric([freshness.value], tally[freshness])
    yield nodes
    age = state_age_seconds(snapshot, now)
    if age is not None:
        yield GaugeMetricFamily("leadsman_state_age_seconds", "Seconds since the newest report of any node.", age)


def state_age_seconds(snapshot: Snapshot, now: float) -> float | None:
    """Seconds since the newest report of any node; None when no node has reported yet."""
    ages = (state.age_seconds(now) for state in snapshot.nodes.values())
    return min((age for age in ages if age is not None), default=None)


def journal_metrics(pods: int, nodes: int, overdue: int) -> Iterator[Metric]:
    """Metrics of the journal and of worker threads past their deadline."""
    yield GaugeMetricFamily("leadsman_journal_pods", "Decisions kept for explanation.", pods)
    yield GaugeMetricFamily(
        "leadsman_journal_nodes", "Candidates and node states that the kept decisions hold in memory.", nodes
    )
    yield GaugeMetricFamily("leadsman_extender_overdue_workers", "Worker threads busy past their deadline.", overdue)
