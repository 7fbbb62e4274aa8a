"""Measured and generated networks, and fits of them that several tests look at."""

from pathlib import Path

import numpy as np
import pytest

from leadsman.network.estimates import NetworkEstimates
from leadsman.network.fitting import FitBudget, fit_network
from leadsman.network.measured_pairs import Floats, MeasuredPairs
from leadsman.simulator.generated_cluster import GeneratedNetwork, rack_network
from tests.holdout import EstimateAccuracy, held_out_pairs, measure_accuracy, sample_pairs

QUICK = FitBudget(members=4, steps=150, landmarks=64, calibration_rounds=2)
"""A fit for tests of anything but accuracy."""


def seen(rtt_ms: Floats) -> MeasuredPairs:
    """What is measured of it."""
    return sample_pairs(rtt_ms, 16, np.random.default_rng(0))


def accuracy(estimates: NetworkEstimates, rtt_ms: Floats) -> EstimateAccuracy:
    """By the pairs that were not measured."""
    one, other = held_out_pairs(rtt_ms, estimates.pairs)
    return measure_accuracy(*estimates.between(one, other)[:3], rtt_ms[one, other])


def matrix(name: str) -> Floats:
    return np.loadtxt(Path(__file__).parents[2] / "data" / "rtt" / f"{name}.txt.gz")


@pytest.fixture(scope="session")
def planetlab() -> Floats:
    """490 hosts, milliseconds."""
    return matrix("planetlab_1")


@pytest.fixture(scope="session")
def seattle() -> Floats:
    """99 devices, milliseconds; not symmetric, 0: not measured."""
    return matrix("seattle_1") * 1000


@pytest.fixture(scope="session")
def region() -> GeneratedNetwork:
    """3 zones of 5 racks of 8 nodes."""
    return rack_network(3, 5, 8, np.random.default_rng(1))


@pytest.fixture(scope="session")
def part(planetlab: Floats) -> Floats:
    """120 of the PlanetLab hosts: enough for what does not depend on the size."""
    some = np.sort(np.random.default_rng(0).permutation(len(planetlab))[:120])
    return planetlab[np.ix_(some, some)]


@pytest.fixture(scope="session")
def part_fit(part: Floats) -> NetworkEstimates:
    return fit_network(seen(part), np.random.default_rng(0), budget=QUICK)
