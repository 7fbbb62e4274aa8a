"""The extender's metrics about itself. A scrape reads memory only."""

import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Iterator
from heapq import nlargest

from prometheus_client import Counter, Gauge, Histogram, Metric

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.rewards import rewards_score
from leadsman.runtime.scrape import FamiliesCollector, FamilySource, counter, create_registry, gauge
from leadsman.state.snapshot import Freshness, Snapshot

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 10.0)
"""Buckets of durations reach from a pod that no plugin applies to, past the 200 ms deadline, to kube-scheduler's
longest timeouts."""


MINUTE_SECONDS, MOST_RECENT = 60.0, 10_000
"""The API shows the durations of the last minute's filter calls, and of no more than this many: more than a busy
scheduler makes in a minute."""

SCHEDULER_VERBS = ("filter", "prioritize", "preempt", "bind")
"""Says what kube-scheduler asks for; other paths are read by people."""


class ExtenderMetrics:
    """Counts requests and decisions. The number of series is bounded: no label holds a node or a pod.

    Decisions have a result: kept (filter let all nodes pass), restricted (some), refused (none), ranked, equal (all
    scores alike), neutral (no decision). Their reason is the refusing plugin, or of neutral ones: overran, fault.
    """

    def __init__(self) -> None:
        self._filter_seconds = deque[tuple[float, float]](maxlen=MOST_RECENT)
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
        if verb == "filter":
            self._filter_seconds.append((time.monotonic(), seconds))
        if verb in SCHEDULER_VERBS:
            self._last_request.labels(verb).set_to_current_time()

    def count_decision(self, verb: str, result: str, reason: str = "") -> None:
        self._decisions.labels(verb, result, reason).inc()

    @property
    def decisions(self) -> tuple[int, int]:
        """Returns how many decisions were made since the start, and how many of them without the plugins."""
        samples = [
            each for family in self._decisions.collect() for each in family.samples if each.name.endswith("_total")
        ]
        neutral = sum(each.value for each in samples if each.labels["result"] == "neutral")
        return int(sum(each.value for each in samples)), int(neutral)

    def recent_filters(self) -> tuple[float, list[float]]:
        """Returns filter calls a minute, and how many seconds each of the last minute took, the shortest first."""
        now, recent = time.monotonic(), list(self._filter_seconds)
        of_minute = sorted(seconds for at, seconds in recent if now - at < MINUTE_SECONDS)
        is_all = len(of_minute) < MOST_RECENT
        return len(of_minute) * MINUTE_SECONDS / (MINUTE_SECONDS if is_all else now - recent[0][0]), of_minute

    def add_collector(self, source: FamilySource) -> None:
        """Adds what `source` yields at each scrape."""
        self.registry.register(FamiliesCollector(source))


def state_metrics(snapshot: Snapshot, now: float) -> Iterator[Metric]:
    """Makes the metrics of the state. now: monotonic seconds on the clock of the snapshot's ages."""
    yield gauge("leadsman_state_problems", "Records in etcd that cannot be read.", len(snapshot.problems))
    dropped = "Records in etcd ignored because their node has too many."
    yield counter("leadsman_state_dropped_records", dropped, snapshot.dropped)
    crowded = "Nodes of which records are ignored, named by leadsman state."
    yield gauge("leadsman_state_crowded_nodes", crowded, snapshot.crowded_nodes)
    tally = Tally(state.freshness(now) for state in snapshot.nodes.values())
    by_freshness = {freshness.value: tally[freshness] for freshness in Freshness}
    yield gauge("leadsman_state_nodes", "Nodes in the state.", by_freshness, "freshness")
    age = state_age_seconds(snapshot, now)
    if age is not None:
        yield gauge("leadsman_state_age_seconds", "Seconds since the newest report of any node.", age)


def state_age_seconds(snapshot: Snapshot, now: float) -> float | None:
    """Returns seconds since the newest report of any node; None when no node has reported yet."""
    ages = (state.age_seconds(now) for state in snapshot.nodes.values())
    return min((age for age in ages if age is not None), default=None)


def journal_metrics(pods: int, held_bytes: int, overdue: int) -> Iterator[Metric]:
    """Makes the metrics of the journal and of worker threads past their deadline."""
    yield gauge("leadsman_journal_pods", "Decisions kept for explanation.", pods)
    memory = "Memory that the kept decisions take beside the newest state, estimated."
    yield gauge("leadsman_journal_bytes", memory, held_bytes)
    yield gauge("leadsman_extender_overdue_workers", "Worker threads busy past their deadline.", overdue)


# Exports rewards as gauges for the pod types with most failures; the other types are only counted.

MAX_LABELLED_TYPES = 10
"""Each has 4 series."""


def reward_metrics(inputs: DecisionInputs) -> Iterator[Metric]:
    """Makes gauges of at most MAX_LABELLED_TYPES pod types, and counts the types that have none."""
    rewards = inputs.snapshot.rewards

    def failed(name: str) -> float:
        """Sums failures as last reported, not faded to now: good enough to choose which types are shown."""
        nodes = rewards[name]
        return inputs.views.lasting.once("failed", lambda: sum(each.reward.failed for each in nodes.values()), nodes)

    shown = nlargest(MAX_LABELLED_TYPES, rewards, key=lambda name: (failed(name), name))
    yield gauge("leadsman_reward_types", "Pod types that nodes report rewards of.", len(rewards))
    hidden = len(rewards) - len(shown)
    yield gauge("leadsman_reward_types_hidden", "Pod types without gauges of their own.", hidden)
    values = {name: each.values for name in shown if (each := rewards_score.assess_type(name, inputs))}
    reporting = {name: len(rewards[name]) for name in shown}
    yield gauge("leadsman_reward_nodes", "Nodes that report rewards of the pod type.", reporting, "type")
    yield gauge(
        "leadsman_reward_nodes_doubted",
        "Nodes that score below the others for the pod type.",
        {name: len(each) for name, each in values.items()},
        "type",
    )
    yield gauge(
        "leadsman_reward_lowest_value",
        "Value of the worst node for the pod type; 1 is as good as any.",
        {name: min(each.values(), default=1.0) for name, each in values.items()},
        "type",
    )
    yield gauge(
        "leadsman_reward_failures",
        "Incidents of the pod type on all nodes, faded to each node's last report.",
        {name: failed(name) for name in shown},
        "type",
    )
