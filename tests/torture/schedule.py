"""All rows, and which run when: the seed decides."""

from collections.abc import Iterator, Sequence
from random import Random

from tests.torture import control_plane_faults, etcd_faults, hostile, node_faults
from tests.torture.rows import Row

FAULTS = control_plane_faults, etcd_faults, hostile, node_faults
"""Importing them adds their rows to ROWS."""

ROW_SECONDS = 14.0
"""Of a row beside its own hold: recovery, and a look at the cluster at rest."""

OVERLAPPING, OVERLAP_SECONDS = 3, 20.0
"""Rows at once, and the span in which they begin."""


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    """Every row once, in the seed's order."""
    return Random(f"rows {seed}").sample(rows, len(rows))


def fits(row: Row, left_seconds: float) -> bool:
    return row.hold_seconds + ROW_SECONDS <= left_seconds


def overlaps(rows: Sequence[Row], seed: int) -> Iterator[list[tuple[float, Row]]]:
    """Without end: rows that touch different things, each with the seconds after which it begins."""
    rng = Random(f"overlaps {seed}")
    while True:
        chosen: list[Row] = []
        for row in rng.sample(rows, len(rows)):
            if len(chosen) < OVERLAPPING and not any(row.touches & other.touches for other in chosen):
                chosen.append(row)
        yield [(rng.uniform(0, OVERLAP_SECONDS) if place else 0.0, row) for place, row in enumerate(chosen)]
