"""How the benchmark of recording and shadow policies compares."""

import numpy as np

from benchmarks.observed import DRAWS, PODS_A_ROUND, geometric_mean, ratio_of_p99

ROUNDS = 60


def walls(seed: int, factor: float = 1.0) -> list[float]:
    """Pods in ms with a long tail, and rounds in which the whole machine is slower."""
    slowness = np.random.default_rng(0).uniform(1, 2, (ROUNDS, 1))
    own = np.random.default_rng(seed).lognormal(0, 0.5, (ROUNDS, PODS_A_ROUND))
    return list((factor * slowness * own).ravel())


def test_the_same_times_have_a_ratio_of_one_without_doubt() -> None:
    same = ratio_of_p99(walls(1), walls(1))
    assert same.ratio == 1.0
    assert same.text() == " 1.00 (1.00 to 1.00) met     "


def test_a_fifth_more_is_found_through_noise_that_both_meet() -> None:
    slower = ratio_of_p99(walls(1, factor=1.2), walls(2))
    assert "not met" in slower.text()
    low, high = np.percentile(slower.draws, (2.5, 97.5))
    assert low < 1.2 < high


def test_the_interval_holds_the_truth_in_about_95_of_100_cases() -> None:
    holds = 0
    for seed in range(20):
        low, high = np.percentile(ratio_of_p99(walls(2 * seed), walls(2 * seed + 1)).draws, (2.5, 97.5))
        holds += low <= 1.0 <= high
    assert holds >= 16


def test_several_cases_together_are_known_better_than_one() -> None:
    cases = [ratio_of_p99(walls(2 * seed), walls(2 * seed + 1)) for seed in range(4)]
    together = geometric_mean(cases)
    assert len(together.draws) == DRAWS
    assert np.std(together.draws) < min(np.std(case.draws) for case in cases)
