"""`leadsman plan forecast`: what pods will use, from what they used, and how wrong that would have been so far."""

import argparse
import sys

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import positive_int
from leadsman.cli.usage_history import history_options, read_history
from leadsman.planning.forecast.forecasts import forecast_requests
from leadsman.planning.forecast.held_out import held_out_errors
from leadsman.planning.forecast.model import UsageHistory, last_time
from leadsman.planning.forecast.report import ForecastReport, as_json, as_text


def options(add: Options) -> None:
    history_options(add.without_environment())
    add.argument(
        "held-out-days", "judge the forecasts on so many of the last days (default {default})", 2, positive_int
    )
    add.parser.add_argument("--json", action="store_true", help="print the forecast as JSON")


def main(args: argparse.Namespace) -> int:
    """ValueError when the history cannot be used."""
    history = read_history(args)
    if history is None:
        raise ValueError("--history or --usage-prometheus is needed: what pods used so far")
    report = forecast_report(history, args.held_out_days)
    sys.stdout.write(as_json(report) if args.json else as_text(report))
    return 0


def forecast_report(history: UsageHistory, held_out_days: int) -> ForecastReport:
    now = last_time(history)
    errors = tuple(held_out_errors(history, held_out_days))
    return ForecastReport(now, forecast_requests(history, now), held_out_days, errors)
