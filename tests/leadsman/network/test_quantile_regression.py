import numpy as np
import pytest

from leadsman.network.calibration import regress_quantile, regress_upper_end


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise that grows from 0.1 to 1.1 along the feature."""
    rng = np.random.default_rng(seed)
    along = rng.uniform(0, 1, count)
    return np.column_stack([np.ones(count), along]), along + (0.1 + along) * rng.standard_normal(count)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_the_share_lies_below_wherever_the_noise_is_large_or_small(share: float) -> None:
    weights = regress_quantile(*drawn(4_000, 0), share)
    features, values = drawn(20_000, 1)
    below = values <= features @ weights
    for part in (features[:, 1] < 0.3, features[:, 1] > 0.7):
        assert below[part].mean() == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("count", [40, 400])
def test_an_upper_end_holds_for_values_to_come_also_after_few(count: int) -> None:
    above = []
    for seed in range(200):
        weights = regress_upper_end(*drawn(count, seed), 0.05)
        features, values = drawn(1_000, 1_000 + seed)
        above.append((values > features @ weights).mean())
    assert np.mean(above) == pytest.approx(0.05, abs=0.03)
