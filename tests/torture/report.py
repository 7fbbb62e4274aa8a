"""The table of a run: a row a fault. Pure."""

from collections.abc import Sequence
from typing import Any

from leadsman.runtime.text_table import align_columns
from tests.torture.checker import RunLog, Violation, answers_during, held_ratio
from tests.torture.log import Injected

HEAD = ("row", "load held", "slowest", "injected", "survived", "violations", "recovered in", "memory peak")
_MIB = 1 << 20


def table(run: RunLog, violations: Sequence[Violation], says: dict[str, str]) -> str:
    """A line a row, then each violation."""
    rows = [
        HEAD,
        *(
            tuple(str(cell) for cell in _cells(line))
            for line in (_line(run, row, violations, says) for row in run.rows)
        ),
    ]
    broken = [f"{one.promise}  at {one.at:.1f}  [{one.row or 'no row'}]  {one.text}" for one in violations]
    return "\n".join([*align_columns(rows), "", *broken[:50], *(["…"] if len(broken) > 50 else [])])


def _line(run: RunLog, row: Injected, violations: Sequence[Violation], says: dict[str, str]) -> dict[str, Any]:
    asked = answers_during(run, row)
    broken = [one for one in violations if row.row in one.row.split(" + ") and row.at <= one.at <= row.until]
    attacks = [one for one in run.attacks if row.at <= one.at <= row.until]
    peaks = [peak for peak in run.peaks if row.row in peak.row.split(" + ") and row.until <= peak.at <= row.until + 1]
    return {
        "row": row.row,
        "says": says.get(row.row, ""),
        "good_requests": len(asked),
        "held_ratio": held_ratio(asked),
        "slowest_seconds": max((one.seconds for one in asked), default=0.0),
        "hostile_requests": len(attacks),
        "statuses": {
            status: sum(one.status == status for one in attacks) for status in {one.status for one in attacks}
        },
        "violations": len(broken),
        "recovered_seconds": {each.what: each.took_seconds for each in row.recoveries},
        "peak_mib": {peak.process: peak.peak_bytes // _MIB for peak in peaks},
    }


def _cells(line: dict[str, Any]) -> list[str]:
    recovered = "; ".join(f"{what} {_seconds(took)}" for what, took in line["recovered_seconds"].items())
    peaks: dict[str, int] = {}
    for process, mib in line["peak_mib"].items():
        kind = process.partition("-")[0]
        peaks[kind] = max(mib, peaks.get(kind, 0))
    return [
        line["row"],
        f"{line['held_ratio']:.1%} of {line['good_requests']}",
        f"{1e3 * line['slowest_seconds']:.0f} ms",
        str(line["hostile_requests"] or "-"),
        "yes" if not line["violations"] else "NO",
        str(line["violations"]),
        recovered,
        ", ".join(f"{kind} {mib} MiB" for kind, mib in peaks.items()),
    ]


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
