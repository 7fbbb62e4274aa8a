"""The table of a run: a row a fault. Pure."""

from collections.abc import Sequence

from leadsman.runtime.text_table import align_columns
from tests.torture.checker import RunLog, Violation, answers_during, held_ratio, seconds_or_never
from tests.torture.log import Attacked, Injected, MemoryPeak

HEAD = ("row", "load held", "slowest", "injected", "survived", "violations", "recovered in", "memory peak")


def table(run: RunLog, violations: Sequence[Violation]) -> str:
    """A line a row, then each violation."""
    rows = [HEAD, *(_cells(run, row, violations) for row in run.of(Injected))]
    broken = [f"{one.promise}  at {one.at:.1f}  [{one.row or 'no row'}]  {one.text}" for one in violations]
    return "\n".join([*align_columns(rows), "", *broken[:50], *(["…"] if len(broken) > 50 else [])])


def _cells(run: RunLog, row: Injected, violations: Sequence[Violation]) -> tuple[str, ...]:
    asked = answers_during(run, row)
    broken = sum(row.row in one.row.split(" + ") and row.at <= one.at <= row.until for one in violations)
    attacks = sum(row.at <= one.at <= row.until for one in run.of(Attacked))
    peaks: dict[str, int] = {}
    for peak in run.of(MemoryPeak):
        if row.row in peak.row.split(" + ") and row.until <= peak.at <= row.until + 1:
            kind = peak.process.partition("-")[0]
            peaks[kind] = max(peak.peak_bytes >> 20, peaks.get(kind, 0))
    return (
        row.row,
        f"{held_ratio(asked):.1%} of {len(asked)}",
        f"{1e3 * max((one.seconds for one in asked), default=0.0):.0f} ms",
        str(attacks or "-"),
        "NO" if broken else "yes",
        str(broken),
        "; ".join(f"{each.what} {seconds_or_never(each.took_seconds)}" for each in row.recoveries),
        ", ".join(f"{kind} {mib} MiB" for kind, mib in peaks.items()),
    )
