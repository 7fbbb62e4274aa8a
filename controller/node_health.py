"""Judges once a second which nodes are dead and which only suspect, on every replica; the leader publishes it.

A replica that does not lead judges too: it must know how long a node has been silent when it takes over.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from controller.node_conditions import NodeConditions
from controller.node_leases import NodeLeases
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.planning.failover.model import DetectionRules, HealthInputs, Location, NodeHealth, NodeVerdict
from leadsman.planning.failover.verdicts import NO_MEMORY, HealthMemory, plan_node_health
from leadsman.state.snapshot import Snapshot

ZONE_LABEL, RACK_LABEL = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
"""Of nodes. The second is widely used, and no standard. What a node's agent says goes before both."""

MAX_NODES_SHOWN = 100


class NodeHealthMode(StrEnum):
    """off: nodes are not judged. report: verdicts are conditions, Events and metrics, and nothing acts on them."""

    OFF = "off"
    REPORT = "report"


class NodeHealthSettings(Struct, frozen=True):
    """mode: whether nodes are judged. rules: the thresholds."""

    mode: NodeHealthMode = NodeHealthMode.OFF
    rules: DetectionRules = DetectionRules()


class NodeHealthReporter:
    """Call `judge` and `publish` in turn.

    nodes: those in Kubernetes, by name.
    conditions: None: a dry run, which writes nothing.
    verdicts: the last ones, by node; empty before the first.
    """

    def __init__(
        self,
        nodes: Callable[[], Mapping[str, PartialObjectMetadata]],
        snapshot: Callable[[], Snapshot],
        leases: NodeLeases,
        conditions: NodeConditions | None,
        rules: DetectionRules,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.verdicts: Mapping[str, NodeVerdict] = {}
        self._nodes, self._snapshot, self._leases, self._conditions = nodes, snapshot, leases, conditions
        self._rules, self._clock = rules, clock
        self._memory: HealthMemory = NO_MEMORY
        self._reached: Counter[NodeHealth] = Counter()
        self._detected, self._detection_seconds, self._plan_seconds = 0, 0.0, 0.0

    async def judge(self) -> None:
        """Makes the verdicts beside the event loop, and reads the Leases on which one may turn."""
        began, before = time.perf_counter(), self.verdicts
        inputs = HealthInputs({name: _location(node) for name, node in self._nodes().items()}, self._leases.current)
        plan = await asyncio.to_thread(
            plan_node_health, self._snapshot(), inputs, self._rules, self._memory, self._clock()
        )
        self.verdicts, self._memory = plan.verdicts, plan.memory
        self._plan_seconds = time.perf_counter() - began
        self._count(before)
        await self._leases.confirm(plan.unconfirmed_leases)

    async def publish(self) -> None:
        """Writes the verdicts to the cluster, unless this is a dry run."""
        if self._conditions:
            await self._conditions.publish(self.verdicts)

    def reset(self) -> None:
        """Forgets what was published: another replica publishes now."""
        if self._conditions:
            self._conditions.reset()

    def page(self) -> dict[str, Any]:
        """The verdicts as JSON values: how many of each and why, and those on nodes that are not healthy."""
        now = self._clock()
        troubled = [verdict for verdict in self.verdicts.values() if verdict.state is not NodeHealth.HEALTHY]
        return {
            "verdicts": {state.value: count for state, count in self._by_state().items()},
            "reasons": dict(Counter(verdict.reason.value for verdict in self.verdicts.values())),
            "nodes": {verdict.node: _shown(verdict, now) for verdict in troubled[:MAX_NODES_SHOWN]},
        }

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        by_state = GaugeMetricFamily("leadsman_node_verdicts", "Nodes by the verdict on them.", labels=["verdict"])
        for state, count in self._by_state().items():
            by_state.add_metric([state.value], count)
        yield by_state
        suspect = GaugeMetricFamily(
            "leadsman_node_suspect",
            "1 for each node that is suspect, cut off or dead, with the reason.",
            labels=["node", "verdict", "reason"],
        )
        for verdict in self.verdicts.values():
            if verdict.state is not NodeHealth.HEALTHY:
                suspect.add_metric([verdict.node, verdict.state.value, verdict.reason.value], 1.0)
        yield suspect
        reached = CounterMetricFamily(
            "leadsman_node_verdict_changes", "Verdicts on nodes that differ from the one before.", labels=["verdict"]
        )
        for state in NodeHealth:
            reached.add_metric([state.value], self._reached[state])
        yield reached
        yield SummaryMetricFamily(
            "leadsman_node_death_detection_seconds",
            "Seconds from the first lost probe to the verdict that a node is dead.",
            self._detected,
            self._detection_seconds,
        )
        reads = CounterMetricFamily(
            "leadsman_node_lease_reads", "Leases of silent nodes that were read directly, by result.", labels=["result"]
        )
        for result, count in self._leases.reads.items():
            reads.add_metric([result], count)
        yield reads
        yield GaugeMetricFamily(
            "leadsman_node_health_plan_seconds", "Seconds that judging all nodes took last.", self._plan_seconds
        )

    def _by_state(self) -> dict[NodeHealth, int]:
        counts = Counter(verdict.state for verdict in self.verdicts.values())
        return {state: counts[state] for state in NodeHealth}

    def _count(self, before: Mapping[str, NodeVerdict]) -> None:
        for node, verdict in self.verdicts.items():
            old = before[node].state if node in before else NodeHealth.HEALTHY
            if verdict.state is old:
                continue
            self._reached[verdict.state] += 1
            timeline = verdict.timeline
            if verdict.state is NodeHealth.DEAD and timeline.first_lost_at is not None:
                self._detected += 1
                self._detection_seconds += verdict.since - timeline.first_lost_at


def _location(node: PartialObjectMetadata) -> Location:
    labels = node.metadata.labels
    return Location(labels.get(ZONE_LABEL, ""), labels.get(RACK_LABEL, ""))


def _shown(verdict: NodeVerdict, now: float) -> dict[str, Any]:
    timeline: dict[str, float | None] = msgspec.to_builtins(verdict.timeline)
    ages = {name.removesuffix("_at"): None if at is None else round(now - at, 1) for name, at in timeline.items()}
    return {
        "verdict": verdict.state.value,
        "reason": verdict.reason.value,
        "message": verdict.message,
        "since_seconds_ago": round(now - verdict.since, 1),
        "timeline_seconds_ago": ages,
        "signals": msgspec.to_builtins(verdict.signals),
    }
