"""SECURITY.md's promise about a liar among the reporters of another node, on generated racks."""

import json
import subprocess
import sys
from typing import Any

import pytest

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    command = [sys.executable, "-m", "benchmarks.lying_reporters", "--network", "racks", "--liars", "1"]
    done = subprocess.run([*command, "--reporters", "3", "--json"], capture_output=True, timeout=600, check=True)
    found: list[Row] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_one_liar_draws_no_link_of_the_node_nearer_by_more_than_the_honest_spread(rows: list[Row]) -> None:
    assert {row["reporters"]: row["cases"] for row in rows} == {3: 24}
    assert max(row["nearer_worst"] for row in rows) <= 1


@pytest.mark.slow
def test_nearly_always_one_liar_moves_the_links_by_no_more_than_the_honest_spread(rows: list[Row]) -> None:
    assert min(row["within"] for row in rows) >= 0.95
    assert max(row["moved_worst"] for row in rows) <= 2.2
