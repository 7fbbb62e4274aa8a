"""What a plugin is, and all filters and scores in the order they are asked. A new one is one small file and one line
here.

A plugin looks at all the nodes at once, because a Python call for each of 5,000 nodes costs more than the thinking. It
says nothing of a node that it has no objection to, and None of a pod that it has no say in.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from leadsman.decision.delay.cloud_score import CloudScore
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.decision.delay.nearest_score import NearestScore
from leadsman.decision.hardware.pressure_score import PressureScore
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.rewards.breaker_filter import BreakerFilter
from leadsman.decision.rewards.rewards_score import RewardsScore
from leadsman.decision.telemetry.telemetry_filter import TelemetryFilter
from leadsman.decision.telemetry.telemetry_score import TelemetryScore


class FilterPlugin(Protocol):
    """Says which nodes may not take the pod, and why. Nothing in the answer: no objection."""

    name: str

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]: ...

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence: ...


class ScorePlugin(Protocol):
    """Says how good each node would be for the pod. None: no say in this pod."""

    name: str

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None: ...

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence: ...


FILTERS: tuple[FilterPlugin, ...] = (DelayFilter(), TelemetryFilter(), BreakerFilter())

SCORES: tuple[ScorePlugin, ...] = (NearestScore(), CloudScore(), PressureScore(), TelemetryScore(), RewardsScore())
