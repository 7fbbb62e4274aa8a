"""Random placements over measured and generated networks break no bound that they were decided on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def tallies() -> dict[str, dict[str, Any]]:
    """Of 30,000 placements; `python -m benchmarks.placements` makes 100,000, with better estimates."""
    return run("--quick", "--placements", "30000")


def run(*arguments: str) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.placements", *arguments, "--json"]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=True)
    return {each["network"]: each for each in json.loads(ran.stdout)}


def test_no_placement_breaks_a_bound_against_what_it_was_decided_on(tallies: dict[str, dict[str, Any]]) -> None:
    assert sum(each["placements"] for each in tallies.values()) >= 30_000
    assert {name: each["broken"] for name, each in tallies.items()} == dict.fromkeys(tallies, 0)


@pytest.mark.parametrize("network", ["planetlab_1", "racks"])
def test_estimates_that_are_accepted_break_fewer_bounds_than_they_promise(
    tallies: dict[str, dict[str, Any]], network: str
) -> None:
    assert tallies[network]["estimated"] > 5_000
    assert tallies[network]["worse_ratio"] <= 0.05
