"""Sixteen pods with 32 bounds each over 5,000 nodes and a pod of another namespace, a real extender on a real etcd."""

import json
import subprocess
import sys
from typing import Any

import pytest

Storm = dict[str, Any]
PHASES = ("heavy_alone", "light_alone", "heavy_in_storm", "light_in_storm")


@pytest.fixture(scope="module")
def storm() -> Storm:
    command = [sys.executable, "-m", "benchmarks.bound_storm", "--seconds", "5", "--json"]
    done = subprocess.run(command, capture_output=True, timeout=300, check=True)
    measured: Storm = json.loads(done.stdout)
    return measured


@pytest.mark.slow
def test_another_namespace_s_bounded_pod_is_never_refused_for_overload(storm: Storm) -> None:
    assert (storm["light_in_storm"]["calls"], storm["light_in_storm"]["overloaded"]) == (50, 0)


@pytest.mark.slow
def test_every_answer_names_each_candidate_once(storm: Storm) -> None:
    assert all(storm[phase]["calls"] for phase in PHASES)
    assert [storm[phase]["invalid"] for phase in PHASES] == [0, 0, 0, 0]


@pytest.mark.slow
def test_overdue_workers_are_never_negative_and_memory_stays_within_its_limit(storm: Storm) -> None:
    assert storm["least_overdue"] == 0
    assert 0 < storm["largest_rss_mib"] <= 400
