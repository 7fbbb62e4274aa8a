import numpy as np
import pytest

from leadsman.network.calibration import Calibration, ErrorPredictors, calibrate


def drawn(count: int, seed: int) -> tuple[ErrorPredictors, np.ndarray]:
    """Errors with heavy tails, twice the spread that is foretold, and 5 % too high a middle."""
    rng = np.random.default_rng(seed)
    spread = np.exp(rng.normal(-3, 1, count))
    signs = ErrorPredictors(rng.normal(4, 1, count), spread, np.full(count, 0.1), np.full(count, 0.2))
    return signs, 0.05 + 2 * spread * rng.standard_t(3, count)


def learn(signs: ErrorPredictors, error: np.ndarray) -> Calibration:
    """Both directions of every pair are as far off."""
    pair = np.arange(len(error))
    return calibrate(ErrorPredictors(*(np.tile(one, 2) for one in signs)), np.tile(error, 2), np.tile(pair, 2))


def covered(found: Calibration, signs: ErrorPredictors, error: np.ndarray) -> np.ndarray:
    low, _, high = found.offsets(signs)
    return (low <= error) & (error <= high)


@pytest.fixture(scope="module")
def learned() -> Calibration:
    return learn(*drawn(4_000, 0))


@pytest.mark.parametrize(("low", "high"), [(0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)])
def test_the_promise_holds_for_sure_and_for_unsure_pairs(learned: Calibration, low: float, high: float) -> None:
    signs, error = drawn(20_000, 1)
    some = (signs.spread >= np.quantile(signs.spread, low)) & (signs.spread <= np.quantile(signs.spread, high))
    assert 0.85 < covered(learned, signs, error)[some].mean() < 0.95


def test_too_few_errors_promise_nothing() -> None:
    signs, error = drawn(12, 0)
    low, _, high = calibrate(signs, error, np.arange(12)).offsets(drawn(3, 1)[0])
    assert np.isinf(low).all()
    assert np.isinf(high).all()


def apart(count: int, seed: int) -> tuple[ErrorPredictors, np.ndarray]:
    """Two directions of each pair, one after the other, that have nothing to do with each other."""
    signs, _ = drawn(count, seed)
    return ErrorPredictors(*(np.tile(one, 2) for one in signs)), np.random.default_rng(seed).standard_t(3, 2 * count)


def test_the_slower_direction_is_beyond_the_upper_end_in_one_of_twenty() -> None:
    signs, error = apart(4_000, 0)
    found = calibrate(signs, error, np.tile(np.arange(4_000), 2))
    signs, error = apart(20_000, 1)
    beyond = (error > found.offsets(signs)[2]).reshape(2, -1)
    assert (beyond[0] | beyond[1]).mean() == pytest.approx(0.05, abs=0.012)
    assert 0.88 < covered(found, signs, error).mean() < 0.92
