"""The estimates' promises on networks that were measured, as numbers past which these tests fail; and their last part,
the residual, against the Gaussian process that its kernel defines."""

import numpy as np
import pytest

from leadsman.network import rtt_model
from leadsman.network.embedding import mean_and_spread
from leadsman.network.estimates import NetworkEstimates
from leadsman.network.fitting import fit_network
from leadsman.network.measured_pairs import Floats
from leadsman.network.rtt_model import MAX_SHARED_ERROR, SELF_KERNEL, fit_residual, nystrom_features
from tests.holdout import held_out_pairs
from tests.leadsman.network.conftest import QUICK, accuracy, seen


@pytest.fixture(scope="module")
def full(planetlab: Floats) -> NetworkEstimates:
    return fit_network(seen(planetlab), np.random.default_rng(0))


def test_errors_and_intervals_on_planetlab(full: NetworkEstimates, planetlab: Floats) -> None:
    median, high, covered = accuracy(full, planetlab)
    assert median < 0.053
    assert high < 0.24
    assert 0.88 <= covered <= 0.92


@pytest.mark.parametrize(("low_ms", "high_ms"), [(0, 30), (30, 100), (100, 200), (200, 60_000)])
def test_intervals_hold_for_near_and_for_far_pairs(
    full: NetworkEstimates, planetlab: Floats, low_ms: float, high_ms: float
) -> None:
    one, other = held_out_pairs(planetlab, full.pairs)
    table, truth = full.between(one, other), planetlab[one, other]
    some = (table.rtt_ms >= low_ms) & (table.rtt_ms < high_ms)
    assert 0.83 < ((table.low_ms <= truth) & (truth <= table.high_ms))[some].mean() < 0.96


def test_intervals_hold_both_directions_of_devices_that_are_not_symmetric(seattle: Floats) -> None:
    estimates = fit_network(seen(seattle), np.random.default_rng(0))
    assert 0.88 <= accuracy(estimates, seattle).interval_coverage <= 0.92


def test_intervals_are_wider_around_a_node_that_is_noisy_by_itself(planetlab: Floats) -> None:
    """Its round trips are off by a third, each in its own way."""
    steady, noisy = planetlab[:160, :160], 7
    shaken = steady.copy()
    shaken[noisy] = shaken[:, noisy] = steady[noisy] * np.exp(np.random.default_rng(1).normal(0, 0.33, 160))
    widths = []
    for rtt_ms in (steady, shaken):
        estimates = fit_network(seen(rtt_ms), np.random.default_rng(0), budget=QUICK)
        one, other = held_out_pairs(rtt_ms, estimates.pairs)
        table = estimates.between(one[one == noisy], other[one == noisy])
        widths.append(np.median(table.high_ms / table.low_ms))
    assert widths[1] > 1.2 * widths[0]


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
