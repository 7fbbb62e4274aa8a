"""Static files: what numpy.loadtxt reads, and errors that name the place."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from leadsman.decision.inputs import SourceRow
from leadsman.sources.delay.matrix import BadMatrix, MatrixFiles, parse_matrix

TEXT = "0 12.5 40\n11 0 1e1\n# three nodes\n\n41\t9.5   0  # edge-3\n"
NODES = '{"edge-1": 0, "edge-3": 2, "edge-2": 1}'


def test_values_are_those_that_loadtxt_reads_a_row_what_its_node_measured_and_a_column_what_others_did() -> None:
    assert np.array_equal(parse_matrix(TEXT, NODES).rtt_ms, np.loadtxt(io.StringIO(TEXT)))
    assert parse_matrix(TEXT, NODES).row("edge-1") == SourceRow(
        {"edge-2": 12.5, "edge-3": 40.0}, {"edge-2": 11.0, "edge-3": 41.0}
    )
    assert parse_matrix(TEXT, NODES).row("edge") == SourceRow()


GOOD, TWO = "0 1\n1 0", '{"a": 0, "b": 1}'


@pytest.mark.parametrize(
    ("matrix", "metadata", "said"),
    [
        ("", TWO, "matrix: no rows"),
        ("0 1\n1 0\n2 2\n", TWO, "matrix row 0 (line 1): 2 columns, but there are 3 rows"),
        ("0 1 2\n1 0 2\n# x\n2 2\n", TWO, "matrix row 2 (line 4): 2 columns, but there are 3"),
        ("0 1\nnan 0", TWO, 'matrix row 1 (line 2), column 0: got "nan"; must be milliseconds, 0 to 60000'),
        ("0 -1\n1 0", TWO, 'matrix row 0 (line 1), column 1: got "-1"'),
        ("0 inf\n1 0", TWO, 'column 1: got "inf"'),
        ("0 60001\n1 0", TWO, 'column 1: got "60001"'),
        ("0 1,5\n1 0", TWO, 'matrix row 0 (line 1), column 1: got "1,5"'),
        ("0 12ms\n1 0", TWO, 'column 1: got "12ms"'),
        (GOOD, "", "metadata: $: "),
        (GOOD, "[0, 1]", "metadata: $: expected object, got array; must be"),
        (GOOD, "[" * 100_000, "metadata: "),
        (GOOD, '{"a": 0}', "metadata: row 1 has no node; name one for each of the 2 rows"),
        (GOOD, '{"a": 0, "b": 2}', 'metadata field "b": got 2; must be a row of the matrix, 0 to 1'),
        (GOOD, '{"a": 0, "b": -1}', 'metadata field "b": got -1'),
        (GOOD, '{"a": 0, "b": true}', "expected int, got bool"),
        (GOOD, '{"a": 0, "b": 0}', 'metadata field "b": got row 0, already the row of "a"'),
        (GOOD, '{"a": 0, "a": 1}', "metadata: row 0 has no node"),
        (GOOD, '{"a": 0, "": 1}', 'metadata field "": must be a node'),
    ],
)
def test_a_bad_matrix_is_refused_by_row_column_and_value_and_metadata_by_field(
    matrix: str, metadata: str, said: str
) -> None:
    with pytest.raises(BadMatrix, match=re.escape(said)):
        parse_matrix(matrix, metadata)


def test_two_files_that_change_one_after_the_other_are_used_when_both_fit(tmp_path: Path) -> None:
    matrix, metadata = tmp_path / "matrix.txt", tmp_path / "nodes.json"
    matrix.write_text("0 1\n1 0\n")
    metadata.write_text(TWO)
    source = MatrixFiles(matrix, metadata)
    matrix.write_text("0 2 3\n2 0 3\n3 3 0\n")
    source.poll()
    assert "row 2 has no node" in source.problem.text
    assert source.current.row("a").forward["b"] == 1
    metadata.write_text('{"a": 0, "b": 1, "c": 2}')
    source.poll()
    assert (source.current.row("a").forward["b"], source.problem.text) == (2, "")
