import numpy as np
import pytest

from leadsman.network.embedding import (
    ENSEMBLE_SHAPES,
    LOSS_WIDTH,
    EmbeddingShape,
    _gradient,
    member_log_ms,
    random_member,
)
from leadsman.network.measured_pairs import MeasuredPairs, build_pairs


@pytest.fixture
def plane() -> MeasuredPairs:
    """40 nodes in a plane of 100 ms, all pairs measured."""
    points = np.random.default_rng(0).uniform(0, 100, (2, 40))
    one, other = np.triu_indices(40, 1)
    return build_pairs(40, one, other, np.hypot(*(points[:, one] - points[:, other])) + 2)


@pytest.mark.parametrize("shape", ENSEMBLE_SHAPES)
def test_the_slope_is_the_derivative_of_the_loss(plane: MeasuredPairs, shape: EmbeddingShape) -> None:
    member = random_member(shape, plane, np.random.default_rng(1))
    values = np.vstack([member.points, member.heights]).astype(np.float64)
    target = plane.log_ms - member.log_unit_ms

    def loss(at: np.ndarray) -> float:
        moved = member._replace(points=at[:-1], heights=at[-1])
        error = (member_log_ms(moved, plane.first, plane.second) - plane.log_ms) / LOSS_WIDTH
        return float((np.sqrt(1 + error**2) - 1).sum() * LOSS_WIDTH**2)

    slope = _gradient(shape, values, plane, target, LOSS_WIDTH)
    for row, node in ((0, 3), (1, 17), (len(values) - 1, 5)):
        step = np.zeros_like(values)
        step[row, node] = 1e-5
        assert slope[row, node] == pytest.approx((loss(values + step) - loss(values - step)) / 2e-5, rel=1e-3, abs=1e-5)
