"""Scores by rank keep the metric's order whatever its distribution."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Ratios = dict[tuple[str, int, str], float]


@pytest.fixture(scope="module")
def ratios() -> Ratios:
    """(metric, nodes, scoring) → of the pairs with different values, those with the same score."""
    command = [sys.executable, "-m", "benchmarks.telemetry_scores", "--json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    return {(each["metric"], each["nodes"], each["scoring"]): each["equal_pairs_ratio"] for each in found}


@pytest.mark.parametrize("metric", ["uniform", "one outlier", "heavy tail", "ties"])
@pytest.mark.parametrize(("nodes", "allowed"), [(4, 0.0), (10, 0.0), (100, 0.11), (1_000, 0.11)])
def test_by_rank_hardly_more_pairs_are_alike_than_ten_scores_must_make_alike(
    ratios: Ratios, metric: str, nodes: int, allowed: float
) -> None:
    assert ratios[metric, nodes, "rank"] <= allowed


def test_by_value_one_outlier_makes_four_of_five_pairs_alike(ratios: Ratios) -> None:
    """Why the default is by rank."""
    assert ratios["one outlier", 10, "proportional"] == pytest.approx(0.8)
