"""Nearest first: 1 at 0 ms, 1/2 at the median, falling with every ms, and a lower RTT never costs its node."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.delay.delay_plugins import NearestScore
from tests.leadsman.decision.conftest import Make

RTTS = st.lists(st.floats(0, 10_000), min_size=1, max_size=12)


def values(make: Make, rtts: list[float]) -> list[float]:
    nodes = {f"n-{number}": ms for number, ms in enumerate(rtts)}
    part = NearestScore().score(
        make.pod(delay_ref="10000"),
        list(nodes),
        make.facts(make.confirmed({"ref": make.state(nodes), **dict.fromkeys(nodes, make.state())})),
    )
    return [part.values[node] for node in nodes]


def test_the_scale_is_the_candidates_own(make: Make) -> None:
    assert values(make, [0.0, 10.0, 20.0]) == [1.0, 0.5, 0.2]


@given(RTTS)
def test_values_fall_with_the_rtt_and_stay_within_0_and_1(make: Make, rtts: list[float]) -> None:
    found = values(make, sorted(rtts))
    assert all(nearer >= farther for nearer, farther in pairwise(found))
    assert all(0 <= value <= 1 for value in found)


def test_several_bounds_count_as_their_mean(make: Make) -> None:
    states = {"a": make.state({"n": 0.0, "m": 9.0}), "b": make.state({"n": 10.0, "m": 10.0})}
    facts = make.facts(make.confirmed(states | dict.fromkeys("nm", make.state())))
    part = NearestScore().score(make.pod(delay_a="60", delay_b="60"), ["n", "m"], facts)
    assert part.values["n"] == 0.75
