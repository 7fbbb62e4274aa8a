"""Defines what a plugin is, and lists all filters and scores in the order they are called.

A new plugin is one small file and one line here. A plugin gets all nodes at once, because a Python call for each of
5,000 nodes costs more than the decision itself.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from leadsman.decision.delay.cloud_score import CloudScore
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.decision.delay.nearest_score import NearestScore
from leadsman.decision.devices.device_filter import DeviceFilter
from leadsman.decision.devices.fit_score import FitScore
from leadsman.decision.devices.gain_score import GainScore
from leadsman.decision.hardware.pressure_score import PressureScore
from leadsman.decision.healing.healing_filter import HealingFilter
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.rewards.breaker_filter import BreakerFilter
from leadsman.decision.rewards.rewards_score import RewardsScore
from leadsman.decision.telemetry.telemetry_filter import TelemetryFilter
from leadsman.decision.telemetry.telemetry_score import TelemetryScore


class FilterPlugin(Protocol):
    """Decides which nodes may not take the pod, and why."""

    name: str

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        """Node → why it is refused; nodes that pass are absent."""

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """What the refusals are based on."""


class ScorePlugin(Protocol):
    """Decides how good each node is for the pod."""

    name: str

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        """The score of each node; None: the plugin does not apply to this pod."""

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """What the score is based on."""


FILTERS: tuple[FilterPlugin, ...] = (HealingFilter(), DelayFilter(), TelemetryFilter(), DeviceFilter(), BreakerFilter())

SCORES: tuple[ScorePlugin, ...] = (
    NearestScore(),
    CloudScore(),
    PressureScore(),
    TelemetryScore(),
    RewardsScore(),
    FitScore(),
    GainScore(),
)
