from typing import Any

import numpy as np
import pytest

from leadsman.network.calibration import ErrorPredictors, calibrate
from leadsman.network.estimates import ESTIMATE_SOURCES, EstimateSource, NetworkEstimates
from leadsman.network.fitting import FitBudget, carry_over, changed_share, fit_budget, fit_network, moved_nodes
from leadsman.network.measured_pairs import Floats, MeasuredPairs, build_pairs
from leadsman.simulator.generated_cluster import GeneratedNetwork, random_peers
from tests.holdout import held_out_pairs, measure_accuracy
from tests.leadsman.network.conftest import QUICK, accuracy, seen


def fitted(found: MeasuredPairs, before: NetworkEstimates | None = None, **more: Any) -> NetworkEstimates:
    return fit_network(found, np.random.default_rng(0), before=before, budget=QUICK, **more)


def made(nodes: int, *found: tuple[int, int, float]) -> MeasuredPairs:
    columns = np.array(found).reshape(-1, 3)
    return build_pairs(nodes, columns[:, 0].astype(np.intp), columns[:, 1].astype(np.intp), columns[:, 2])


def test_of_two_measured_directions_the_slower_counts() -> None:
    row = fitted(made(2, (0, 1, 4), (1, 0, 9))).row(0)
    assert [column[1] for column in row[:3]] == pytest.approx([9, 4, 9])


def test_a_row_is_the_same_as_its_pairs(part_fit: NetworkEstimates) -> None:
    others = np.array([0, 3, 50, 119])
    pairs, row = part_fit.between(np.full(4, 3), others), part_fit.row(3)
    assert pairs.rtt_ms == pytest.approx(row.rtt_ms[others], rel=1e-4)
    assert pairs.high_ms == pytest.approx(row.high_ms[others], rel=1e-4)


def test_a_node_that_nobody_measured_is_unknown() -> None:
    estimates = fitted(made(4, (0, 1, 5), (1, 2, 5)))
    assert (estimates.row(0).source >= 0).tolist() == [True, True, True, False]


def test_few_measurements_promise_nothing() -> None:
    """With under 20 pairs left out no 90 % interval can be told."""
    row = fitted(made(4, (0, 1, 5), (1, 2, 5), (2, 3, 5))).row(0)
    assert (row.low_ms[2], row.high_ms[2]) == (0, pytest.approx(60_000))


def test_one_liar_hardly_changes_the_estimates_of_the_others(part: Floats) -> None:
    """Everything that is measured from or to node 7 is up to 100 times too much or too little."""
    wrong = part.copy()
    wrong[7] = wrong[:, 7] = part[7] * np.exp(np.random.default_rng(0).uniform(-4.6, 4.6, len(part)))
    honest, lied_to = fitted(seen(part)), fitted(seen(wrong))
    one, other = held_out_pairs(part, honest.pairs)
    others = (one != 7) & (other != 7)
    truth = part[one, other][others]
    tables = [each.between(one, other) for each in (honest, lied_to)]
    before, after = (
        measure_accuracy(table.rtt_ms[others], table.low_ms[others], table.high_ms[others], truth) for table in tables
    )
    assert after.median_relative_error < before.median_relative_error * 1.1
    assert after.p90_relative_error < before.p90_relative_error * 1.1


def test_a_warm_start_is_as_good_as_a_cold_one_with_fewer_than_half_of_its_steps(
    part: Floats, part_fit: NetworkEstimates
) -> None:
    warm = fitted(seen(part), part_fit)
    assert QUICK.warm_descent.steps < QUICK.steps / 2
    assert accuracy(warm, part).median_relative_error < accuracy(part_fit, part).median_relative_error * 1.1


def test_a_node_that_joins_begins_beside_its_nearest_peer() -> None:
    before = fit_network(made(3, (0, 1, 5), (1, 2, 6)), np.random.default_rng(0), budget=FitBudget(1, 1, 3, 0))
    member = carry_over(before, np.array([0, 1, 2, -1]), made(4, (3, 1, 2), (3, 0, 1), (3, 2, 9))).model.members[0]
    assert np.array_equal(member.points[:, 3], member.points[:, 0])


def test_changed_is_the_share_of_pairs_in_only_one() -> None:
    one, other = made(4, (0, 1, 5), (1, 2, 5), (2, 3, 5)), made(4, (0, 1, 5), (1, 2, 6), (0, 3, 5))
    assert changed_share(one, other) == pytest.approx(0.5)
    assert changed_share(one, one) == changed_share(made(3), made(3)) == 0


def test_a_node_has_moved_when_most_of_its_pairs_did() -> None:
    before = made(5, (0, 1, 5), (0, 2, 5), (0, 3, 5), (1, 2, 5), (2, 3, 5), (1, 3, 5))
    now = made(5, (0, 1, 9), (0, 2, 9), (0, 3, 5), (1, 2, 5), (2, 3, 5), (1, 3, 5))
    assert moved_nodes(before, now).tolist() == [True, False, False, False, False]


def test_changes_add_up_until_the_calibration_is_made_anew(part: Floats, part_fit: NetworkEstimates) -> None:
    found, estimates = seen(part), part_fit
    for share in (0.06, 0.12):
        kept = np.arange(len(found.log_ms)) >= share * len(found.log_ms)
        before, estimates = estimates, fitted(found.where(kept), estimates)
        assert (estimates.calibration is before.calibration) is (share == 0.06)
    assert estimates.drift == 0


def test_groups_come_before_coordinates_where_they_err_less(region: GeneratedNetwork) -> None:
    found = seen(region.rtt_ms)
    grouped = fitted(found, groups=(region.rack, region.zone))
    table = grouped.between(*held_out_pairs(region.rtt_ms, found))
    assert {ESTIMATE_SOURCES[source] for source in table.source} == {EstimateSource.GROUP}


def test_groups_that_say_nothing_are_left_out(part: Floats) -> None:
    """Random racks: their medians err more than coordinates do."""
    rack = np.random.default_rng(0).integers(0, 4, len(part))
    assert fitted(seen(part), groups=(rack,)).group_medians == ()


@pytest.mark.parametrize("nodes", [10, 500, 5_000, 20_000])
def test_a_fit_spends_no_more_than_its_budget_at_any_size(nodes: int) -> None:
    rng = np.random.default_rng(0)
    source, target = random_peers(nodes, min(16, nodes - 1), rng)
    found = build_pairs(nodes, source, target, np.ones(len(source)))
    budget = fit_budget(found)
    assert budget.members * budget.steps * len(found.log_ms) <= max(64_000_000, 500 * len(found.log_ms))
    assert budget.landmarks <= nodes


def apart(count: int, seed: int) -> tuple[ErrorPredictors, np.ndarray]:
    """Two directions of each pair, one after the other, that have nothing to do with each other; with heavy tails."""
    rng = np.random.default_rng(seed)
    spread, tails = np.exp(rng.normal(-3, 1, count)), np.random.default_rng(seed).standard_t(3, 2 * count)
    signs = rng.normal(4, 1, count), spread, np.full(count, 0.1), np.full(count, 0.2)
    return ErrorPredictors(*(np.tile(one, 2) for one in signs)), tails


def test_the_slower_direction_is_beyond_the_upper_end_in_one_of_twenty() -> None:
    signs, error = apart(4_000, 0)
    found = calibrate(signs, error, np.tile(np.arange(4_000), 2))
    signs, error = apart(20_000, 1)
    low, _, high = found.offsets(signs)
    beyond = (error > high).reshape(2, -1)
    assert (beyond[0] | beyond[1]).mean() == pytest.approx(0.05, abs=0.012)
    assert 0.88 < ((low <= error) & (error <= high)).mean() < 0.92
