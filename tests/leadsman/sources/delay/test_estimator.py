"""The background loop: when it works, what it leaves alone, and what a failure costs."""

import logging
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec import Struct, structs

from leadsman.decision.policy import DelayPolicy, Policy, Statistic
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.delay import estimator as module
from leadsman.sources.delay.estimator import Estimator
from leadsman.sources.delay.fitted_estimates import Measurements, gather_measurements
from leadsman.sources.delay.goldpinger import GoldpingerReport, GoldpingerView
from leadsman.sources.delay.matrix import parse_matrix
from leadsman.state.records import Identity
from leadsman.state.snapshot import Snapshot
from tests.leadsman.sources.delay.conftest import QUICK, node_state, random_plane, snapshot_of

NO_PROBLEM = ProblemLog(logging.getLogger(__name__), "", "")


class Standing(Struct):
    current: Any
    problem: ProblemLog = NO_PROBLEM
    source: str = "static"


class World:
    """What the estimator sees, on a clock of the tests' own."""

    def __init__(self) -> None:
        self.state, self.policy, self.now = Standing(random_plane(nodes=20, peers=6)), Standing(Policy()), 1.0

    def estimator(self, **more: Any) -> Estimator:
        return Estimator(self.state, self.policy, clock=lambda: self.now, budget=QUICK, **more)


@pytest.fixture
def world() -> World:
    return World()


async def fits(estimator: Estimator) -> int:
    await estimator.run_once()
    return estimator.fits


async def test_a_round_makes_estimates_dated_when_their_data_were_read(world: World) -> None:
    """A new object of the same data is the same."""
    estimator = world.estimator()
    assert await fits(estimator) == 1
    assert estimator.current
    assert estimator.current.made_at == 1.0
    assert len(estimator.current.row("n-00").nodes) == 20
    world.state.current = random_plane(nodes=20, peers=6)
    assert await fits(estimator) == 1


@pytest.mark.parametrize("change", ["joined", "left", "moved", "pairs", "statistic", "layers", "matrix", "age"])
async def test_what_changes_enough_is_fitted_again(world: World, change: str) -> None:
    matrix = Standing(parse_matrix("0", '{"x": 0}'))
    estimator = world.estimator(matrices=[matrix])
    await estimator.run_once()
    if change == "joined":
        world.state.current = Snapshot({**world.state.current.nodes, "new": node_state({"n-00": 5.0})})
    elif change == "left":
        world.state.current = random_plane(nodes=19, peers=6)
    elif change == "moved":
        states = world.state.current.nodes
        identity = Identity("pod", 1, "10.0.0.1", "zone-a")
        world.state.current = Snapshot({**states, "n-00": structs.replace(states["n-00"], identity=identity)})
    elif change == "pairs":
        world.state.current = random_plane(nodes=20, peers=6, seed=1)
    elif change == "statistic":
        world.policy.current = Policy(delay=DelayPolicy(statistic=Statistic.P95))
    elif change == "layers":
        world.policy.current = Policy(initial_layers=(5.0,))
    elif change == "matrix":
        matrix.current = parse_matrix("0", '{"y": 0}')
    else:
        world.state.current = random_plane(nodes=20, peers=6, at=200.0)
        world.now = 201.0
    assert await fits(estimator) == 2


async def test_a_fit_that_fails_is_counted_and_the_old_one_stays(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    estimator = world.estimator()
    await estimator.run_once()
    before = estimator.current
    world.state.current = random_plane(nodes=19, peers=6)
    monkeypatch.setattr(module, "fit_estimates", Mock(side_effect=FloatingPointError("no slope")))
    with caplog.at_level(logging.ERROR):
        await estimator.run_once()
        await estimator.run_once()
    assert estimator.current is before
    assert (estimator.failures, estimator.problem.text) == (2, "FloatingPointError: no slope")
    assert len(caplog.records) == 1
    monkeypatch.undo()
    assert await fits(estimator) == 2
    assert estimator.problem.text == ""


async def test_when_nothing_fresh_is_left_the_old_estimates_stay_with_their_age(world: World) -> None:
    estimator = world.estimator()
    await estimator.run_once()
    before, world.now = estimator.current, 100.0
    assert await fits(estimator) == 1
    assert estimator.current is before


async def test_switched_off_it_makes_groups_only(world: World) -> None:
    estimator = world.estimator(estimates=False, initial_layers_ms=[50.0])
    await estimator.run_once()
    assert estimator.current is None
    assert estimator.groups
    assert estimator.groups.named()["50 ms"]


# What a fit is given: every fresh measurement, and nothing else.


def pairs_ms(found: Measurements) -> dict[tuple[str, str], Any]:
    names = found.nodes
    return {
        (names[one], names[other]): pytest.approx(float(np.exp(log_ms)))
        for one, other, log_ms in zip(found.pairs.first, found.pairs.second, found.pairs.log_ms, strict=True)
    }


def test_fresh_reports_count_and_stale_ones_do_not() -> None:
    snapshot = snapshot_of(a=node_state({"b": 5.0}, at=90.0), b=node_state({"c": 7.0}, at=80.0))
    found = gather_measurements(snapshot, 100.0, Statistic.P50)
    assert (found.nodes, pairs_ms(found)) == (("a", "b"), {("a", "b"): 5.0})


def test_a_peer_that_did_not_answer_is_no_measurement_and_no_node() -> None:
    found = gather_measurements(snapshot_of(a=node_state({"b": None})), 0.0, Statistic.P50)
    assert (found.nodes, pairs_ms(found)) == (("a",), {})


@pytest.mark.parametrize(("statistic", "ms"), [(Statistic.P50, 4.0), (Statistic.P95, 8.0), (Statistic.MIN, 2.0)])
def test_the_policys_statistic_counts(statistic: Statistic, ms: float) -> None:
    assert pairs_ms(gather_measurements(snapshot_of(a=node_state({"b": 4.0})), 0.0, statistic)) == {("a", "b"): ms}


def test_what_others_measured_counts_while_it_is_fresh() -> None:
    """Goldpinger's readings in the middle of what it rounded away."""
    view = GoldpingerView({"a": GoldpingerReport({"b": 13.0}, set(), "")}, {"a", "b"}, read_at=0.0, fresh_until=50.0)
    assert pairs_ms(gather_measurements(snapshot_of(), 49.0, Statistic.P50, [view])) == {("a", "b"): 12.5}
    assert gather_measurements(snapshot_of(), 50.0, Statistic.P50, [view]).nodes == ()


def test_a_racks_name_counts_within_its_zone() -> None:
    places = {n: (n, "x", "r1") for n in "ab"} | {"c": ("c", "y", "r1"), "d": ("d", "y", ""), "e": ("", "", "")}
    found = gather_measurements(
        snapshot_of(**{n: node_state({}, place) for n, place in places.items()}), 0.0, Statistic.P50
    )
    racks, zones = (groups.tolist() for groups in found.groups)
    assert (racks, zones) == ([0, 0, 1, -1, -1], [0, 0, 1, 1, -1])
