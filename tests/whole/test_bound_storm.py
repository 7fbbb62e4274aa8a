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


def overload_ratio(phase: dict[str, Any]) -> float:
    return float(phase["overloaded"] / phase["calls"])


@pytest.mark.slow
def test_the_storm_meets_its_own_namespace_before_another(storm: Storm) -> None:
    """On a busy machine decisions miss their 200 ms whatever we do. The other pod is then refused far less
    often than the storm's own; without turns it was refused more often."""
    assert storm["light_in_storm"]["calls"] == 50
    assert overload_ratio(storm["light_in_storm"]) <= 0.7 * overload_ratio(storm["heavy_in_storm"])


@pytest.mark.slow
def test_alone_no_pod_is_refused_for_overload(storm: Storm) -> None:
    assert [storm[phase]["overloaded"] for phase in ("heavy_alone", "light_alone")] == [0, 0]


@pytest.mark.slow
def test_every_answer_names_each_candidate_once(storm: Storm) -> None:
    assert all(storm[phase]["calls"] for phase in PHASES)
    assert {storm[phase]["invalid"] for phase in PHASES} == {0}


@pytest.mark.slow
def test_overdue_workers_are_never_negative_and_memory_stays_within_400_of_the_manifest_s_512_mib(storm: Storm) -> None:
    assert storm["least_overdue"] == 0
    assert 0 < storm["largest_rss_mib"] <= 400
