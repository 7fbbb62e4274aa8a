"""All filters and scores, in the order they are asked. A new one is one small file and one line here."""

from leadsman.decision.delay.cloud_score import CloudScore
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.decision.delay.nearest_score import NearestScore
from leadsman.decision.hardware.pressure_score import PressureScore
from leadsman.decision.model import FilterPlugin, ScorePlugin
from leadsman.decision.rewards.breaker_filter import BreakerFilter
from leadsman.decision.rewards.rewards_score import RewardsScore
from leadsman.decision.telemetry.telemetry_filter import TelemetryFilter
from leadsman.decision.telemetry.telemetry_score import TelemetryScore

FILTERS: tuple[FilterPlugin, ...] = (DelayFilter(), TelemetryFilter(), BreakerFilter())

SCORES: tuple[ScorePlugin, ...] = (NearestScore(), CloudScore(), PressureScore(), TelemetryScore(), RewardsScore())
