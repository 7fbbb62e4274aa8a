import numpy as np
import pytest

from topology.calibration import UNKNOWN, Calibration, Signs, calibrate


def drawn(count: int, seed: int) -> tuple[Signs, np.ndarray]:
    """Errors with heavy tails, twice the spread that is foretold, and 5 % too high a middle."""
    rng = np.random.default_rng(seed)
    spread = np.exp(rng.normal(-3, 1, count))
    signs = Signs(rng.normal(4, 1, count), spread, np.full(count, 0.1), np.full(count, 0.2))
    return signs, 0.05 + 2 * spread * rng.standard_t(3, count)


def covered(found: Calibration, signs: Signs, error: np.ndarray) -> np.ndarray:
    low, _, high = found.offsets(signs)
    return (low <= error) & (error <= high)


@pytest.fixture(scope="module")
def learned() -> Calibration:
    return calibrate(*drawn(4_000, 0))


def test_nine_of_ten_errors_to_come_are_within(learned: Calibration) -> None:
    assert 0.88 < covered(learned, *drawn(20_000, 1)).mean() < 0.92


@pytest.mark.parametrize(("low", "high"), [(0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)])
def test_the_promise_holds_for_sure_and_for_unsure_pairs(learned: Calibration, low: float, high: float) -> None:
    signs, error = drawn(20_000, 1)
    some = (signs.spread >= np.quantile(signs.spread, low)) & (signs.spread <= np.quantile(signs.spread, high))
    assert 0.85 < covered(learned, signs, error)[some].mean() < 0.95


def test_unsure_pairs_get_wider_intervals(learned: Calibration) -> None:
    two = np.ones(2)
    low, _, high = learned.offsets(Signs(two * 4, np.array([0.01, 0.5]), two * 0.1, two * 0.2))
    assert (high - low)[1] > 5 * (high - low)[0]


def test_the_bias_is_found(learned: Calibration) -> None:
    signs, _ = drawn(1_000, 2)
    assert np.median(learned.offsets(signs)[1]) == pytest.approx(0.05, abs=0.02)


def test_the_middle_is_within_the_interval(learned: Calibration) -> None:
    low, middle, high = learned.offsets(drawn(1_000, 2)[0])
    assert ((low <= middle) & (middle <= high)).all()


def test_too_few_errors_promise_nothing() -> None:
    low, _, high = calibrate(*drawn(18, 0)).offsets(drawn(3, 1)[0])
    assert np.isinf(low).all()
    assert np.isinf(high).all()


def test_no_errors_promise_nothing() -> None:
    signs, error = drawn(0, 0)
    assert calibrate(signs, error) is UNKNOWN
    assert np.isinf(UNKNOWN.offsets(drawn(3, 1)[0])[2]).all()
