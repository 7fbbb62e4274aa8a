"""A cluster that takes plans, and policies and metrics in the words of the tests."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.telemetry.taspolicy import TasPolicy
from leadsman.planning.labels.label_plan import LabelLimits, LabelPlan, NodeView, PlanMemory
from leadsman.planning.labels.label_planner import plan_labels
from tests.leadsman.decision.telemetry import tas

FREE = LabelLimits(max_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=0.0, max_flips_per_hour=10**6)
"""Nothing but hysteresis and the stop where data are missing."""

Metrics = Mapping[str, Mapping[str, Any]]


class Cluster:
    """Nodes that take patches as the API server does, and one controller's memory of them.

    wall_ahead: of the wall clock, before the monotonic one; None: no record of changes is kept.
    """

    def __init__(self, *names: str, limits: LabelLimits = FREE, wall_ahead: float | None = None) -> None:
        self.nodes = {name: NodeView(name, {"kubernetes.io/hostname": name}) for name in names}
        self.limits, self.memory, self.now, self.wall_ahead = limits, PlanMemory(), 1000.0, wall_ahead

    def change_leader(self, later: float = 0.0) -> None:
        """Another process plans so many seconds later. Its memory is empty, its monotonic clock another."""
        assert self.wall_ahead is not None
        wall_now = self.wall_ahead + self.now + later
        self.memory, self.now = PlanMemory(), 50.0
        self.wall_ahead = wall_now - self.now

    def step(self, policies: Iterable[TasPolicy], metrics: Metrics, after: float = 1.0) -> LabelPlan:
        """One round of the controller, `after` seconds after the last one."""
        self.now += after
        return self.round(tas.facts(policies, metrics, self.now))

    def round(self, facts: DecisionInputs) -> LabelPlan:
        wall_now = None if self.wall_ahead is None else self.now + self.wall_ahead
        made = plan_labels(list(self.nodes.values()), facts, self.memory, self.limits, wall_now=wall_now)
        for patch in made.patches:
            self.apply(patch.body(), patch.node)
        self.memory = made.memory
        return made

    def apply(self, body: bytes, name: str) -> None:
        """RFC 7386 on the two maps."""
        node, metadata = self.nodes[name], json.loads(body)["metadata"]
        labels, annotations = (
            {k: v for k, v in {**before, **metadata[field]}.items() if v is not None}
            for field, before in (("labels", node.labels), ("annotations", node.annotations))
        )
        self.nodes[name] = NodeView(name, labels, annotations)

    def ours(self, name: str) -> dict[str, str]:
        return {key: value for key, value in self.nodes[name].labels.items() if key != "kubernetes.io/hostname"}


HOT = tas.policy(deschedule=[tas.rule("heat", "GreaterThan", 100)])
"""Marks nodes with heat over 100."""
