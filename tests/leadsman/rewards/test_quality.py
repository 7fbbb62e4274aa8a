from math import e, log
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.rewards.quality import quality_factors
from leadsman.state.records import Quality


def timed(**seconds: float) -> dict[str, dict[str, Quality]]:
    return {node: {"run_time": Quality(log(each), 20.0)} for node, each in seconds.items()}


def test_faster_than_usual_gains_nothing() -> None:
    assert "fast" not in quality_factors(timed(a=10, b=10, c=10, fast=1))


def test_run_times_that_differ_by_chance_put_no_node_in_doubt() -> None:
    assert quality_factors(timed(a=9, b=10, c=11, d=12)) == {}


def test_of_two_nodes_neither_is_called_slow() -> None:
    assert quality_factors(timed(a=10, b=20)) == {}


def test_few_observations_count_less() -> None:
    nodes = timed(a=10, b=10, c=10)
    few, many = ({"run_time": Quality(log(20), samples)} for samples in (1.0, 20.0))
    assert quality_factors(nodes | {"slow": few})["slow"] > quality_factors(nodes | {"slow": many})["slow"]


def test_qualities_multiply() -> None:
    both = {node: {"run_time": q["run_time"], "metric": q["run_time"]} for node, q in timed(a=1, b=1, c=1, s=2).items()}
    assert quality_factors(both)["s"] == pytest.approx(quality_factors(timed(a=1, b=1, c=1, s=2))["s"] ** 2)


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=9), st.floats(0.001, 1_000))
def test_a_liar_slows_nobody_beyond_the_usual_of_the_others(seconds: list[float], claim: float) -> None:
    """Whatever one node claims, a node no slower than all honest ones keeps its worth."""
    honest = timed(**{f"n{place}": each for place, each in enumerate(seconds)})
    fastest = min(honest, key=lambda node: honest[node]["run_time"].log_cost)
    if claim >= min(seconds):
        assert fastest not in quality_factors(honest | timed(liar=claim))


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.1, 10), min_size=3))
def test_the_median_is_of_the_other_nodes(seconds: dict[str, float]) -> None:
    for node, factor in quality_factors(timed(**seconds)).items():
        usual = median(log(each) for other, each in seconds.items() if other != node)
        assert factor == pytest.approx(e ** (-(log(seconds[node]) - usual) * 20 / 22))
