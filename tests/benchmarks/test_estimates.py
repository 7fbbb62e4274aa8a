import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.estimates import accepted

ROOT = Path(__file__).parents[2]
SCORES = {"median_relative_error", "p90_relative_error", "interval_coverage"}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.estimates", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False)


def answer(*arguments: str | Path) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 nodes on 100 ms by 100 ms."""
    points = np.random.default_rng(0).uniform(0, 100, (2, 40))
    path = tmp_path_factory.mktemp("matrix") / "plane.txt"
    np.savetxt(path, np.hypot(*(points[:, :, None] - points[:, None, :])))
    return path


def test_json_has_the_scores_of_ours_and_of_the_baseline(plane: Path) -> None:
    found = answer("--matrix", plane, "--k", "8", "--seed", "3", "--peers", "random")
    assert found.keys() >= SCORES | {"fit_seconds", "seed", "k"}
    assert 0 <= found["slower_above"] <= 0.1
    assert {each["pairs"] > 0 for each in found["accepted"].values()} == {True}
    assert found["baseline"].keys() == SCORES
    assert found["median_relative_error"] < 0.1


def test_the_unit_changes_nothing_but_the_scale(plane: Path, tmp_path: Path) -> None:
    seconds = tmp_path / "seconds.txt.gz"
    with gzip.open(seconds, "wt") as out:
        np.savetxt(out, np.loadtxt(plane) / 1000)
    one = answer("--matrix", plane, "--k", "8", "--peers", "random")
    other = answer("--matrix", seconds, "--unit", "s", "--k", "8", "--peers", "random")
    assert one["median_relative_error"] == pytest.approx(other["median_relative_error"], rel=0.05)


def test_several_seeds_make_a_list(plane: Path) -> None:
    assert [one["seed"] for one in answer("--matrix", plane, "--k", "8", "--seed", "1", "2", "--peers", "random")] == [
        1,
        2,
    ]


def test_a_bound_accepts_by_the_upper_end_and_is_broken_by_the_slower_direction() -> None:
    high_ms, slower_ms = np.array([4.0, 9.0, 5.0, 11.0]), np.array([3.0, 8.0, 12.0, 30.0])
    assert accepted(np.array([[10.0]]), high_ms, slower_ms) == {"pairs": 3, "broken_ratio": 0.3333}
    assert accepted(np.array([[4.0, 8.0, 12.0, 10.0]]), high_ms, slower_ms) == {"pairs": 2, "broken_ratio": 0.0}
    assert accepted(np.array([[1.0]]), high_ms, slower_ms) == {"pairs": 0, "broken_ratio": 0.0}


def test_without_json_there_is_a_line_a_matrix_two_of_bounds_and_one_a_band(plane: Path) -> None:
    heading, line, any_bounds, own_bounds, *bands = run(
        "--matrix", plane, "--k", "8", "--peers", "random"
    ).stdout.splitlines()
    assert heading.startswith("matrix")
    assert line.startswith("plane.txt")
    assert [each.split()[:2] for each in (any_bounds, own_bounds)] == [["accepted,", "any"], ["accepted,", "own"]]
    assert [band.split()[0] for band in bands] == ["0", "0", "30", "100"]


def test_several_seeds_end_with_their_median_and_range(plane: Path) -> None:
    lines = run("--matrix", plane, "--k", "8", "--peers", "random", "--seed", "1", "2", "3").stdout.splitlines()
    begin = lines.index("plane.txt, 3 seeds: median (lowest to highest)")
    coverages = sorted(float(line.split()[5].rstrip("%")) for line in lines[:begin] if line.startswith("plane.txt"))
    low, middle, high = coverages
    assert lines[begin + 1].endswith(f"{middle}% ({low}% to {high}%)")
    assert [line.split()[0] for line in lines[begin + 2 :]] == ["0", "0", "30", "100", "accepted,", "accepted,"]


def test_the_last_slice_before_stands_for_those_before_it(plane: Path) -> None:
    one, two = (
        answer("--matrix", plane, "--k", "8", "--peers", "random", "--before", plane, "--sets", sets)["remembered"]
        for sets in ("1", "2")
    )
    assert 0 < one < two


def test_agents_choose_whom_they_measure_and_former_peers_are_remembered(plane: Path) -> None:
    found = answer("--matrix", plane, "--k", "8", "--before", plane, "--sets", "1")
    assert (found["peers"], found["median_relative_error"] < 0.1) == ("agents", True)
    assert 0 < found["remembered"] < found["measured"]
    assert found["held_out"] == 40 * 39 - 2 * found["measured"]


def test_nodes_times_a_cold_and_a_warm_fit() -> None:
    found = answer("--nodes", "100")
    assert 0 < found["warm_fit_seconds"] < found["fit_seconds"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("1 2\n3 4\n5 6\n", "3 rows of 2 values"), ("a b\n", "could not convert"), (None, "No such file")],
)
def test_a_file_that_is_no_matrix_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "broken.txt"
    if text is not None:
        path.write_text(text)
    found = run("--matrix", path)
    assert found.returncode == 1
    assert "broken.txt" in found.stderr
    assert said in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("k", ["0", "40", "-1"])
def test_a_k_that_no_node_can_measure_is_refused_with_a_sentence(plane: Path, k: str) -> None:
    found = run("--matrix", plane, f"--k={k}", "--json")
    assert found.returncode == 1
    assert found.stderr == f"plane.txt: 40 nodes, --k {k}: want more nodes than k, and k at least 1\n"


def test_a_k_above_the_nodes_to_time_is_refused_with_a_sentence() -> None:
    assert run("--nodes", "10", "--k", "16").stderr.startswith("--nodes: 10 nodes, --k 16: want")


def test_a_k_that_leaves_nothing_to_estimate_is_refused_with_a_sentence(plane: Path) -> None:
    assert run("--matrix", plane, "--k", "39", "--peers", "random").stderr.startswith(
        "plane.txt: 780 pairs measured, 0 held out: want some"
    )


def test_a_matrix_of_holes_is_refused_with_a_sentence(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "holes.txt", np.zeros((5, 5)))
    assert run("--matrix", tmp_path / "holes.txt", "--k", "2", "--peers", "random").stderr.startswith(
        "holes.txt: 0 pairs measured"
    )
