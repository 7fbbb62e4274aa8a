"""All filters and scores, in the order they are asked. A new one is one small file and one line here."""

from decision.breaker import BreakerFilter
from decision.cloud import CloudScore
from decision.delay import DelayFilter
from decision.model import FilterPlugin, ScorePlugin
from decision.nearest import NearestScore
from decision.pressure import PressureScore
from decision.rewards import RewardsScore
from decision.telemetry.filter import TelemetryFilter
from decision.telemetry.score import TelemetryScore

FILTERS: tuple[FilterPlugin, ...] = (DelayFilter(), TelemetryFilter(), BreakerFilter())

SCORES: tuple[ScorePlugin, ...] = (NearestScore(), CloudScore(), PressureScore(), TelemetryScore(), RewardsScore())
