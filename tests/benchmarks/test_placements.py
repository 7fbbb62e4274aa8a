"""Random placements over measured and generated networks break no bound that they were decided on.

Of 30,000 placements; `python -m benchmarks.placements` makes 100,000, with better estimates.
"""

import pytest

from benchmarks.placements import PlacementTally, tallies
from leadsman.network.fitting import FitBudget

QUICK = FitBudget(members=4, steps=150, landmarks=64, calibration_rounds=2)


@pytest.fixture(scope="module")
def networks() -> dict[str, PlacementTally]:
    return {each.network: each for each in tallies(30_000, 1, QUICK)}


def test_no_placement_breaks_a_bound_against_what_it_was_decided_on(networks: dict[str, PlacementTally]) -> None:
    assert sum(each.placements for each in networks.values()) >= 30_000
    assert {name: each.broken for name, each in networks.items()} == dict.fromkeys(networks, 0)


@pytest.mark.parametrize("network", ["planetlab_1", "racks"])
def test_estimates_that_are_accepted_break_fewer_bounds_than_they_promise(
    networks: dict[str, PlacementTally], network: str
) -> None:
    assert networks[network].estimated > 5_000
    assert networks[network].worse_ratio <= 0.05
