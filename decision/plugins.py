"""All filters and scores, in the order they are asked. A new one is one small file and one line here."""

from decision.delay import DelayFilter
from decision.model import Filter, Score
from decision.nearest import NearestScore
from decision.pressure import PressureScore

FILTERS: tuple[Filter, ...] = (DelayFilter(),)

SCORES: tuple[Score, ...] = (NearestScore(), PressureScore())
