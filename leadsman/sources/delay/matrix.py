"""Parses a delay matrix and its metadata. An error names file, row, column or field.

The matrix is what numpy.loadtxt reads: a line a row, values separated by whitespace, `#` begins a comment; square, in
milliseconds, row → column as the row's node measured it. The metadata are `{"node": row}` in JSON, one node a row.
Rows and columns count from 0, as in the metadata.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from math import inf
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from leadsman.decision.inputs import SourceRow
from leadsman.decision.view import Column
from leadsman.network.measured_pairs import MAX_RTT_MS, Floats
from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import WatchedFiles

SOURCE = "static"

_ALLOWED_VALUES = f"must be milliseconds, 0 to {MAX_RTT_MS:g}"


class BadMatrix(ValueError):
    """The matrix or its metadata cannot be used; the text names row, column or field, the value and what is allowed."""


class DelayMatrix(Struct, frozen=True, eq=False):
    """Gives a matrix as a DelayView of leadsman.decision.inputs; it does not age.

    rows: node → row and column of rtt_ms.
    """

    rows: Mapping[str, int]
    rtt_ms: Floats

    source: str = SOURCE
    read_at: float | None = None
    fresh_until: float = inf

    @property
    def nodes(self) -> Set[str]:
        return self.rows.keys()

    def row(self, reference: str) -> SourceRow:
        at = self.rows.get(reference)
        if at is None:
            return SourceRow()
        names, rows = tuple(self.rows), list(self.rows.values())
        own = rows.index(at)
        others, their_rows = names[:own] + names[own + 1 :], np.array(rows[:own] + rows[own + 1 :], np.intp)
        return SourceRow(Column(others, self.rtt_ms[at, their_rows]), Column(others, self.rtt_ms[their_rows, at]))


def parse_matrix(matrix: str, metadata: str) -> DelayMatrix:
    """Parses both texts. Raises BadMatrix when they are not a square matrix and one node for each row of it."""
    rtt_ms = parse_round_trips(matrix)
    return DelayMatrix(_named_rows(metadata, len(rtt_ms)), rtt_ms)


def parse_round_trips(matrix: str) -> Floats:
    """Reads a square matrix without names, with zeros from each node to itself. Raises BadMatrix."""
    rtt_ms = _square(list(_rows(matrix)))
    np.fill_diagonal(rtt_ms, 0)
    return rtt_ms


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields each row's line in the file, from 1, and its values."""
    for line, content in enumerate(text.splitlines(), 1):
        values = content.partition("#")[0].split()
        if values:
            yield line, values


def _square(rows: list[tuple[int, list[str]]]) -> Floats:
    if not rows:
        raise BadMatrix("matrix: no rows; write one line for each node")
    for row, (line, values) in enumerate(rows):
        if len(values) != len(rows):
            raise BadMatrix(f"matrix row {row} (line {line}): {len(values)} columns, but there are {len(rows)} rows")
    square = np.empty((len(rows), len(rows)))  # a column of a million rows would be 8 TB
    for row, (line, values) in enumerate(rows):
        square[row] = _milliseconds(row, line, values)
    return square


def _milliseconds(row: int, line: int, values: list[str]) -> Floats:
    try:
        numbers = np.array(values, float)
    except ValueError:
        numbers = np.array([_number(value) for value in values])
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= MAX_RTT_MS)))
    if len(wrong):
        at = int(wrong[0])
        raise BadMatrix(f'matrix row {row} (line {line}), column {at}: got "{values[at][:40]}"; {_ALLOWED_VALUES}')
    return numbers


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")


def _named_rows(text: str, rows: int) -> dict[str, int]:
    try:
        row_of = msgspec.json.decode(text, type=dict[str, int])
    except UNREADABLE as error:
        raise BadMatrix(f'metadata: {explain(error)}; must be {{"node": row}} in JSON') from error
    node_of: dict[int, str] = {}
    for node, row in row_of.items():
        field = f"metadata field {json.dumps(node)}"
        if not node or not node.isprintable():
            raise BadMatrix(f"{field}: must be a node's name")
        if not 0 <= row < rows:
            raise BadMatrix(f"{field}: got {row}; must be a row of the matrix, 0 to {rows - 1}")
        if row in node_of:
            raise BadMatrix(f'{field}: got row {row}, already the row of "{node_of[row]}"; list each row once')
        node_of[row] = node
    if missing := set(range(rows)) - node_of.keys():
        raise BadMatrix(f"metadata: row {min(missing)} has no node; name one for each of the {rows} rows of the matrix")
    return dict(sorted(row_of.items()))


# Follows delays in two files, a matrix and its metadata, read again when they change.

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 256 << 20
"""5,000 nodes with 8 characters a value have 200 MB."""


class MatrixFiles(WatchedFiles[DelayMatrix]):
    """Follows the matrix's files; the first reading raises UnusableFile."""

    source = SOURCE

    def __init__(self, matrix: Path, metadata: Path) -> None:
        problem = ProblemLog(
            log,
            "cannot use the delay matrix files; the last good matrix stays in use",
            "the delay matrix files are valid again",
            logging.ERROR,
        )
        super().__init__([matrix, metadata], _parse, problem, MAX_FILE_BYTES)

    async def run(self) -> None:
        """Follows until cancelled."""
        async for _ in self.changes():
            pass  # What reads `current` has the new matrix.


def _parse(contents: Sequence[bytes]) -> DelayMatrix:
    matrix = parse_matrix(*(content.decode() for content in contents))
    log.info("delay matrix read: %d nodes", len(matrix.rows))
    return matrix
