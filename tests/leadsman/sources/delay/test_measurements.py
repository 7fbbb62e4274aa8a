"""What a fit is given: every fresh measurement, and nothing else."""

from typing import Any

import numpy as np
import pytest

from leadsman.decision.policy import Statistic
from leadsman.sources.delay.fitted_estimates import Measurements, gather_measurements
from leadsman.sources.delay.goldpinger import GoldpingerReport
from leadsman.sources.delay.goldpinger import GoldpingerView as GoldpingerView
from tests.leadsman.sources.delay.conftest import Make


def pairs_ms(found: Measurements) -> dict[tuple[str, str], Any]:
    names = found.nodes
    return {
        (names[one], names[other]): pytest.approx(float(np.exp(log_ms)))
        for one, other, log_ms in zip(found.pairs.first, found.pairs.second, found.pairs.log_ms, strict=True)
    }


def test_fresh_reports_count_and_stale_ones_do_not(make: Make) -> None:
    snapshot = make.snapshot(a=make.state({"b": 5.0}, at=90.0), b=make.state({"c": 7.0}, at=80.0))
    found = gather_measurements(snapshot, 100.0, Statistic.P50)
    assert (found.nodes, pairs_ms(found)) == (("a", "b"), {("a", "b"): 5.0})


def test_a_peer_that_did_not_answer_is_no_measurement_and_no_node(make: Make) -> None:
    found = gather_measurements(make.snapshot(a=make.state({"b": None})), 0.0, Statistic.P50)
    assert (found.nodes, pairs_ms(found)) == (("a",), {})


@pytest.mark.parametrize(("statistic", "ms"), [(Statistic.P50, 4.0), (Statistic.P95, 8.0), (Statistic.MIN, 2.0)])
def test_the_policys_statistic_counts(make: Make, statistic: Statistic, ms: float) -> None:
    assert pairs_ms(gather_measurements(make.snapshot(a=make.state({"b": 4.0})), 0.0, statistic)) == {("a", "b"): ms}


def test_what_others_measured_counts_while_it_is_fresh(make: Make) -> None:
    """Goldpinger's readings in the middle of what it rounded away."""
    view = GoldpingerView({"a": GoldpingerReport({"b": 13.0}, set(), "")}, {"a", "b"}, read_at=0.0, fresh_until=50.0)
    assert pairs_ms(gather_measurements(make.snapshot(), 49.0, Statistic.P50, [view])) == {("a", "b"): 12.5}
    assert gather_measurements(make.snapshot(), 50.0, Statistic.P50, [view]).nodes == ()


def test_a_racks_name_counts_within_its_zone(make: Make) -> None:
    places = {
        "a": ("1", "x", "r1"),
        "b": ("2", "x", "r1"),
        "c": ("3", "y", "r1"),
        "d": ("4", "y", ""),
        "e": ("", "", ""),
    }
    found = gather_measurements(
        make.snapshot(**{n: make.state({}, place) for n, place in places.items()}), 0.0, Statistic.P50
    )
    racks, zones = (groups.tolist() for groups in found.groups)
    assert (racks, zones) == ([0, 0, 1, -1, -1], [0, 0, 1, 1, -1])
