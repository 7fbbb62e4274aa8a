import numpy as np
import pytest

from leadsman.network.quantile_regression import regress_quantile


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


def test_an_outlier_pulls_no_harder_than_its_side() -> None:
    features, values = drawn(4_000, 0)
    far = values.copy()
    far[values.argmax()] += 1e6
    assert regress_quantile(features, far, 0.9) == pytest.approx(regress_quantile(features, values, 0.9), abs=0.02)


def test_a_feature_that_never_varies_gets_no_weight() -> None:
    features, values = drawn(500, 0)
    still = np.column_stack([features, np.full(500, 7.0)])
    assert regress_quantile(still, values, 0.9) == pytest.approx(
        np.append(regress_quantile(features, values, 0.9), 0), abs=1e-3
    )
