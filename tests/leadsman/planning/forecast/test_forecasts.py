"""Forecasts look at nothing that is later than now, and each is best at what it is for."""

import numpy as np

from benchmarks.forecast import synthetic_history
from leadsman.planning.forecast.forecasts import DAY, FORECASTS, HOUR, forecast_requests, same_hour_yesterday
from leadsman.planning.forecast.held_out import ForecastError, held_out_errors
from leadsman.planning.forecast.histogram import CPU_MILLIS
from leadsman.planning.forecast.model import Series


def errors_by_name(kind: str, resource: str) -> dict[str, ForecastError]:
    errors = held_out_errors(synthetic_history(kind, workloads=2, days=6, seed=3), days=2)
    return {each.forecast: each for each in errors if each.resource == resource}


def test_what_comes_after_now_changes_no_forecast() -> None:
    times = np.arange(0, 3 * DAY, 600.0)
    calm = Series(times, np.full(len(times), 100.0))
    storm = Series(times, np.where(times < 2 * DAY, 100.0, 5000.0))
    for name, forecast in FORECASTS.items():
        for at in (2 * DAY, 2 * DAY + 5 * HOUR):
            assert forecast(calm, CPU_MILLIS, 2 * DAY, at) == forecast(storm, CPU_MILLIS, 2 * DAY, at), name


def test_the_same_hour_is_that_of_the_last_day_that_is_known() -> None:
    times = np.arange(0, 2 * DAY, HOUR)
    series = Series(times, times / HOUR)
    assert same_hour_yesterday(series, CPU_MILLIS, 2 * DAY, 2 * DAY + 5 * HOUR) == 24 + 5
    assert same_hour_yesterday(series, CPU_MILLIS, 2 * DAY, 3 * DAY + 5 * HOUR) == 24 + 5


def test_hour_by_hour_a_daily_curve_is_better_told_by_yesterday() -> None:
    errors = errors_by_name("daily", "cpu")
    assert errors["same hour yesterday"].hourly_error < errors["decaying histogram"].hourly_error / 2


def test_as_one_request_for_all_day_the_histogram_is_better_than_the_busiest_hour() -> None:
    for kind in ("steady", "daily", "weekly", "growing", "bursts"):
        errors = errors_by_name(kind, "cpu")
        histogram, busiest = errors["decaying histogram"], errors["busiest hour yesterday"]
        assert histogram.loss < busiest.loss, kind
        assert histogram.slack < busiest.slack, kind


def test_of_a_steady_load_one_sample_in_ten_is_above_the_forecast() -> None:
    exceeded = errors_by_name("steady", "cpu")["decaying histogram"].exceeded
    assert 0.05 < exceeded < 0.13, "p90, and buckets round up"


def test_one_day_is_too_short_to_hold_days_out() -> None:
    assert held_out_errors(synthetic_history("daily", 1, 1, 1), 2) == []


def test_requests_are_whole_and_the_same_each_time() -> None:
    history = synthetic_history("daily", 2, 3, 1)
    found = forecast_requests(history, 3.0 * DAY)
    assert found == forecast_requests(history, 3.0 * DAY)
    assert all(isinstance(amount, int) for by_resource in found.values() for amount in by_resource.values())
