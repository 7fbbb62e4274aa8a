import numpy as np
import pytest

from leadsman.network.measured_pairs import MeasuredPairs, build_pairs


def made(nodes: int, *measured: tuple[int, int, float]) -> MeasuredPairs:
    source, target, rtt_ms = zip(*measured, strict=True) if measured else ((), (), ())
    return build_pairs(nodes, np.array(source, np.intp), np.array(target, np.intp), np.array(rtt_ms, np.float64))


@pytest.mark.parametrize("rtt_ms", [float("nan"), float("inf"), -float("inf"), 0.0, -5.0, 0.0001, 60_001.0])
def test_a_value_that_makes_no_sense_is_a_hole(rtt_ms: float) -> None:
    assert made(3, (0, 1, rtt_ms), (1, 2, 5)).keys.tolist() == [5]


def test_two_directions_become_one_pair_with_a_skew() -> None:
    pair = made(3, (2, 1, 4), (1, 2, 16))
    assert (pair.first.tolist(), pair.second.tolist()) == ([1], [2])
    assert np.exp(pair.log_ms + pair.half_skew) == pytest.approx(16)
    assert np.exp(pair.log_ms - pair.half_skew) == pytest.approx(4)


def test_directions_are_the_measurements_one_by_one() -> None:
    of, log_ms = made(4, (2, 1, 4), (1, 2, 16), (3, 0, 9)).directions
    assert sorted(zip(of.tolist(), np.exp(log_ms).round(3).tolist(), strict=True)) == [(0, 9), (1, 4), (1, 16)]


def test_slots_find_a_pair_in_either_order_and_say_when_there_is_none() -> None:
    slot, found = made(4, (0, 1, 5), (3, 2, 7)).find_pairs(np.array([1, 2, 3, 0]), np.array([0, 3, 2, 3]))
    assert found.tolist() == [True, True, True, False]
    assert slot[:3].tolist() == [0, 1, 1]
