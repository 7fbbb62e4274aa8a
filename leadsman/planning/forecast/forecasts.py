"""Three forecasts of one series. Each takes what is known at `now` and a later time, and gives a value or None when it
knows nothing."""

from collections.abc import Callable, Mapping

import numpy as np

from leadsman.planning.forecast.histogram import Buckets, decayed_percentile
from leadsman.planning.forecast.model import RESOURCES, Series, UsageHistory

HOUR, DAY = 3600.0, 86_400.0

SHARE = 0.9
"""VPA's --target-cpu-percentile."""

Forecast = Callable[[Series, Buckets, float, float], float | None]
"""Series, buckets, now, the time that is asked about."""


def histogram(series: Series, buckets: Buckets, now: float, at: float) -> float | None:
    """The 90th percentile of everything before now, recent samples counting more. The same for every later time, as a
    pod's requests are."""
    known = series.between(-np.inf, now)
    return decayed_percentile(known.values, known.times, now, SHARE, buckets) if len(known.values) else None


def same_hour_yesterday(series: Series, buckets: Buckets, now: float, at: float) -> float | None:
    """The 90th percentile of the same hour on the last day that is known."""
    days = max(np.ceil((at - now) / DAY), 1)
    hour = at // HOUR * HOUR - days * DAY
    return _percentile(series.between(hour, min(hour + HOUR, now)))


def busiest_hour_yesterday(series: Series, buckets: Buckets, now: float, at: float) -> float | None:
    """What requests would have to be, to hold all day by yesterday's hours."""
    hours = (_percentile(series.between(now - (back + 1) * HOUR, now - back * HOUR)) for back in range(24))
    return max((value for value in hours if value is not None), default=None)


FORECASTS: Mapping[str, Forecast] = {
    "decaying histogram": histogram,
    "same hour yesterday": same_hour_yesterday,
    "busiest hour yesterday": busiest_hour_yesterday,
}


def _percentile(series: Series) -> float | None:
    return float(np.quantile(series.values, SHARE, method="inverted_cdf")) if len(series.values) else None


def forecast_requests(history: UsageHistory, now: float) -> dict[str, dict[str, int]]:
    """Workload → resource → what one of its pods should request from now on, by the histogram; rounded up."""
    return {
        workload: {
            resource: int(np.ceil(value))
            for resource, series in by_resource.items()
            if (value := histogram(series, RESOURCES[resource], now, now)) is not None
        }
        for workload, by_resource in history.items()
    }
