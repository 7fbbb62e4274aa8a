"""A forecast for people and programs."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from leadsman.cluster.resources import amount_text
from leadsman.planning.forecast.held_out import ForecastError
from leadsman.runtime.text_table import align_columns


class ForecastReport(Struct, frozen=True):
    """requests: workload → resource → what a pod should request: millis of cpu, bytes of memory.

    now: Unix seconds of the last sample: the forecast is for the time after it.
    errors: of each forecast on the held-out days; empty when the history is too short.
    """

    now: float
    requests: Mapping[str, Mapping[str, int]]
    held_out_days: int
    errors: tuple[ForecastError, ...]


def as_json(report: ForecastReport) -> str:
    plain = msgspec.to_builtins(report)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def as_text(report: ForecastReport) -> str:
    """The requests, and the errors side by side."""
    requests: list[tuple[str, ...]] = [("WORKLOAD", "CPU", "MEMORY")]
    for workload, amounts in report.requests.items():
        shown = (amount_text(name, amounts[name]) if name in amounts else "unknown" for name in ("cpu", "memory"))
        requests.append((workload, *shown))
    parts = ["\n".join(align_columns(requests))]
    if report.errors:
        rows: list[tuple[str, ...]] = [
            ("RESOURCE", "FORECAST", "LOSS", "EXCEEDED", "SLACK", "ERROR BY HOUR", "SAMPLES")
        ]
        for each in report.errors:
            shares = (f"{value:.1%}" for value in (each.loss, each.exceeded, each.slack, each.hourly_error))
            rows.append((each.resource, each.forecast, *shares, str(each.samples)))
        parts.append(f"On the last {report.held_out_days} days, held out:\n" + "\n".join(align_columns(rows)))
    else:
        parts.append("The history is too short to hold days out, so nobody knows how wrong this is")
    return "\n\n".join(parts) + "\n"
