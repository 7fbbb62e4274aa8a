import numpy as np
import pytest

from leadsman.network import rtt_model
from leadsman.network.embedding import mean_and_spread
from leadsman.network.estimates import NetworkEstimates
from leadsman.network.measured_pairs import Floats
from leadsman.network.rtt_model import MAX_SHARED_ERROR, SELF_KERNEL, fit_residual, nystrom_features


@pytest.fixture(scope="module")
def kernel(part_fit: NetworkEstimates) -> Floats:
    return nystrom_features(part_fit.model.members, np.arange(part_fit.pairs.node_count))


@pytest.fixture(scope="module")
def error(part_fit: NetworkEstimates) -> Floats:
    pairs = part_fit.pairs
    return pairs.log_ms - mean_and_spread(part_fit.model.members, pairs.first, pairs.second)[0]


def test_it_is_the_gaussian_process_that_its_kernel_defines(
    part_fit: NetworkEstimates, kernel: Floats, error: Floats
) -> None:
    """Against a direct solution with the kernel of all measured pairs."""
    pairs, shared = part_fit.pairs, kernel.T @ kernel
    alike = shared + SELF_KERNEL * np.eye(pairs.node_count)
    first, second = pairs.first, pairs.second
    straight = alike[np.ix_(first, first)] * alike[np.ix_(second, second)]
    crossed = alike[np.ix_(first, second)] * alike[np.ix_(second, first)]
    own = (rtt_model._NOISE - SELF_KERNEL**2) * np.eye(len(first))
    share = np.linalg.solve(straight + crossed + own, np.clip(error, -MAX_SHARED_ERROR, MAX_SHARED_ERROR))
    matrix = np.zeros_like(shared)
    matrix[first, second] = matrix[second, first] = share
    wanted = alike @ matrix @ alike - SELF_KERNEL**2 * matrix
    found = fit_residual(kernel, pairs, error, 200).at(first, second)
    assert found == pytest.approx(wanted[first, second], abs=2e-3)


def test_many_nodes_take_another_way_to_the_same_result(
    part_fit: NetworkEstimates, kernel: Floats, error: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = part_fit.pairs
    dense = fit_residual(kernel, pairs, error, 12).at(pairs.first, pairs.second)
    monkeypatch.setattr(rtt_model, "MAX_DENSE_NODES", 0)
    assert fit_residual(kernel, pairs, error, 12).at(pairs.first, pairs.second) == pytest.approx(dense, abs=1e-3)
