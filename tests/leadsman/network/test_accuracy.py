"""The estimates' promises on networks that were measured, as numbers past which these tests fail."""

import numpy as np
import pytest

from leadsman.network.estimates import NetworkEstimates
from leadsman.network.fitting import fit_network
from leadsman.network.measured_pairs import Floats
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
