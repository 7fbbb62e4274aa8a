"""The extender's own metrics. A scrape reads memory only."""

from collections import Counter as Tally
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from leadsman.state.snapshot import Freshness, Snapshot

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 10.0)
"""From a pod that nobody has a say in, past the 200 ms deadline, to kube-scheduler's longest timeouts."""


class ExtenderMetrics:
    """Series are bounded: verbs, statuses, results and plugins are few, and nothing is labelled by node or pod."""

    def __init__(self, version: str = "") -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Histogram(
            "leadsman_extender_request_duration_seconds",
            "From a request's headers to its answer.",
            ["verb", "code"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._decisions = Counter(
            "leadsman_extender_decisions_total",
            "Decisions by what came out and why: the refusing plugin, or overran or fault when neutral.",
            ["verb", "result", "reason"],
            registry=registry,
        )
        self.missing_policies = Counter(
            "leadsman_telemetry_missing_policy_total",
            "Filtered pods whose label telemetry-policy names no policy that is in use in their namespace.",
            registry=registry,
        )
        info = Gauge("leadsman_build_info", "Always 1.", ["version"], registry=registry)
        info.labels(version).set(1)

    def observe_request(self, verb: str, code: int, seconds: float) -> None:
        self._requests.labels(verb, str(code)).observe(seconds)

    def count_decision(self, verb: str, result: str, reason: str = "") -> None:
        self._decisions.labels(verb, result, reason).inc()

    def add_collector(self, read: "Callable[[], Iterator[Metric]]") -> None:
        """Adds what `read` yields at each scrape."""
        self.registry.register(_CallbackCollector(read))


class _CallbackCollector(Collector):
    def __init__(self, read: Callable[[], Iterator[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        return self._read()

    def describe(self) -> list[Metric]:
        return []


def state_metrics(snapshot: Snapshot, now: float) -> Iterator[Metric]:
    """now: the monotonic seconds of the snapshot's ages."""
    yield GaugeMetricFamily("leadsman_state_problems", "Records that cannot be read.", len(snapshot.problems))
    nodes = GaugeMetricFamily("leadsman_state_nodes", "Nodes in the state.", labels=["freshness"])
    tally = Tally(state.freshness(now) for state in snapshot.nodes.values())
    for freshness in Freshness:
        nodes.add_metric([freshness.value], tally[freshness])
    yield nodes
    age = state_age_seconds(snapshot, now)
    if age is not None:
        yield GaugeMetricFamily("leadsman_state_age_seconds", "Since any node last reported something new.", age)


def state_age_seconds(snapshot: Snapshot, now: float) -> float | None:
    """None when no node was ever seen to report."""
    ages = (state.age_seconds(now) for state in snapshot.nodes.values())
    return min((age for age in ages if age is not None), default=None)


def journal_metrics(pods: int, nodes: int, overdue: int) -> Iterator[Metric]:
    yield GaugeMetricFamily("leadsman_journal_pods", "Decisions kept for explanation.", pods)
    yield GaugeMetricFamily("leadsman_journal_nodes", "Nodes that the kept decisions hold in memory.", nodes)
    yield GaugeMetricFamily("leadsman_extender_overdue_workers", "Threads busy past their deadline.", overdue)
