"""How wrong the forecasts would have been on the last days of a history, each made when its day began."""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from leadsman.planning.forecast.forecasts import DAY, FORECASTS, HOUR, SHARE
from leadsman.planning.forecast.histogram import Buckets, Floats
from leadsman.planning.forecast.model import RESOURCES, Series, UsageHistory


class ForecastError(Struct, frozen=True):
    """Of one forecast of one resource, over all workloads and held-out hours, in parts of the mean usage there.

    loss: pinball loss at 0.9, for a value that 9 in 10 samples should not exceed: a unit too little costs nine times as
        much as a unit too much. The forecast with the least is the best for requests.
    exceeded: share of the samples that used more; 0.1 is meant.
    slack: requested and not used.
    hourly_error: mean absolute distance to the hour's 90th percentile.
    samples: how many it was judged on.
    """

    forecast: str
    resource: str
    loss: float
    exceeded: float
    slack: float
    hourly_error: float
    samples: int


def held_out_errors(history: UsageHistory, days: int) -> list[ForecastError]:
    """Of each forecast on the last `days` days; without those resources of which there is no earlier sample."""
    errors = []
    for resource, buckets in RESOURCES.items():
        all_series = [by_resource[resource] for by_resource in history.values() if resource in by_resource]
        judged = [hour for series in all_series for hour in _judged(series, buckets, days)]
        if judged:
            for number, name in enumerate(FORECASTS):
                errors.append(_error(name, resource, [(values[number], actual) for values, actual in judged]))
    return errors


def _judged(series: Series, buckets: Buckets, days: int) -> Iterator[tuple[tuple[float, ...], Floats]]:
    """What each forecast said of an hour, and its samples; of the held-out hours of which every forecast said
    something."""
    end = np.ceil((series.times[-1] + 1) / DAY) * DAY
    for day in range(days, 0, -1):
        now = end - day * DAY
        known = series.between(-np.inf, now)
        for hour in range(24):
            at = now + hour * HOUR
            actual = series.between(at, at + HOUR).values
            values = [forecast(known, buckets, now, at) for forecast in FORECASTS.values()] if len(actual) else []
            said = tuple(value for value in values if value is not None)
            if len(said) == len(FORECASTS):
                yield said, actual


def _error(name: str, resource: str, judged: list[tuple[float, Floats]]) -> ForecastError:
    values = np.concatenate([np.full(len(actual), value) for value, actual in judged])
    used = np.concatenate([actual for _, actual in judged])
    hourly = [abs(value - np.quantile(actual, SHARE, method="inverted_cdf")) for value, actual in judged]
    short, over, mean = (used - values).clip(min=0), (values - used).clip(min=0), max(float(used.mean()), 1e-9)
    return ForecastError(
        forecast=name,
        resource=resource,
        loss=round(float((SHARE * short + (1 - SHARE) * over).mean()) / mean, 4),
        exceeded=round(float((used > values).mean()), 4),
        slack=round(float(over.mean()) / mean, 4),
        hourly_error=round(float(np.mean(hourly)) / mean, 4),
        samples=len(used),
    )
