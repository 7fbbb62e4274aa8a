"""What one node says of itself is compared with what all others report."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from leadsman.network import plausibility
from leadsman.network.embedding import EnsembleMember, mean_and_spread
from leadsman.network.estimates import fit_group_medians
from leadsman.network.fitting import fit_network
from leadsman.network.measured_pairs import Floats, Indices, build_pairs
from leadsman.network.plausibility import ENOUGH_TO_JUDGE, MIN_REPORTERS, Plausibility, Reports, place_by_others
from leadsman.simulator.generated_cluster import rack_network, random_peers
from tests.leadsman.network.conftest import QUICK


class Reported(NamedTuple):
    """Reports of a network whose round trips are known."""

    reporter: Indices
    target: Indices
    rtt_ms: Floats

    @property
    def nodes(self) -> int:
        return int(self.reporter.max()) + 1

    def reports(self, unanswered: Indices | None = None) -> Reports:
        nothing = np.zeros(self.nodes, np.intp) if unanswered is None else unanswered
        return Reports(self.nodes, self.reporter, self.target, np.log(self.rtt_ms).astype(np.float32), nothing)

    def lied(self, liar: int, factor: Floats | float) -> "Reported":
        """The liar multiplies what it measured, at least 0.001 ms."""
        wrong = np.maximum(self.rtt_ms * factor, 0.001)
        return self._replace(rtt_ms=np.where(self.reporter == liar, wrong, self.rtt_ms))

    def without(self, mask: NDArray[np.bool_]) -> "Reported":
        return Reported(self.reporter[~mask], self.target[~mask], self.rtt_ms[~mask])

    def about(self, node: int) -> NDArray[np.bool_]:
        """All reports about a node but too few to place it."""
        return np.cumsum(self.target == node) * (self.target == node) >= MIN_REPORTERS

    def members(self) -> "Members":
        pairs = build_pairs(self.nodes, self.reporter, self.target, self.rtt_ms)
        return fit_network(pairs, np.random.default_rng(0), budget=QUICK).model.members

    def placed(self, unanswered: Indices | None = None) -> Plausibility:
        return place_by_others(self.members(), self.reports(unanswered))

    @property
    def alone(self) -> NDArray[np.bool_]:
        return np.isnan(self.reports().by_other_end())


def reported(rtt_ms: Floats, k: int = 12, seed: int = 0) -> Reported:
    one, other = random_peers(len(rtt_ms), k, np.random.default_rng(seed))
    there = rtt_ms[one, other] > 0
    return Reported(one[there], other[there], rtt_ms[one, other][there])


@pytest.fixture(scope="module")
def honest(part: Floats) -> Reported:
    return reported(part)


Members = tuple[EnsembleMember, ...]


@pytest.fixture(scope="module")
def members(honest: Reported) -> Members:
    return honest.members()


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_nearly_everything_that_a_liar_alone_reports_is_implausible(honest: Reported, factor: float) -> None:
    found = honest.lied(7, factor)
    implausible = found.placed().implausible(found.reports())
    assert implausible[(found.reporter == 7) & found.alone].all()


def test_an_honest_report_is_rarely_implausible(part: Floats, seattle: Floats) -> None:
    """On PlanetLab and on personal devices, whose directions differ; of those that one end alone reports."""
    region = rack_network(3, 5, 16, np.random.default_rng(1)).rtt_ms
    for rtt_ms in (part, seattle, region):
        found = reported(rtt_ms, 16)
        implausible = found.placed().implausible(found.reports())
        assert implausible[found.alone].mean() < 0.04


def test_a_report_that_the_other_end_confirms_is_plausible_however_odd(honest: Reported) -> None:
    """Two nodes far apart by everybody else's reports, and near by both of their own."""
    one, other = 0, int(honest.target[0])
    ends = (honest.reporter == one) & (honest.target == other) | (honest.reporter == other) & (honest.target == one)
    rest = honest.without(ends)
    found = Reported(
        np.append(rest.reporter, [one, other]), np.append(rest.target, [other, one]), np.append(rest.rtt_ms, [0.1, 0.1])
    )
    assert not found.placed().implausible(found.reports())[-2:].any()


def test_nothing_is_told_of_a_node_that_few_measured(honest: Reported) -> None:
    found = honest.without(honest.about(7))
    assert (found.placed().row(7)[1] == 0).all()


def test_nothing_that_a_node_alone_reports_is_believed_while_nobody_that_probes_it_gets_a_reply(
    honest: Reported,
) -> None:
    found = honest.without(honest.about(7))
    unanswered = np.bincount([7] * MIN_REPORTERS, minlength=found.nodes)
    placed = found.placed(unanswered)
    assert np.isinf(placed.row(7)).all()
    assert placed.implausible(found.reports(unanswered))[(found.reporter == 7) & found.alone].all()


def measured_by(honest: Reported, node: int, reporters: int) -> tuple[Reported, Indices]:
    """Only so many measured the node; and the positions of their reports."""
    about = np.flatnonzero(honest.target == node)
    drop = np.zeros(len(honest.target), np.bool_)
    drop[about[reporters:]] = True
    found = honest.without(drop)
    return found, np.flatnonzero(found.target == node)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 30), st.integers(MIN_REPORTERS, ENOUGH_TO_JUDGE - 1), st.integers(0, 2), st.floats(-6, 6))
def test_one_of_few_reporters_makes_a_node_no_farther_than_the_others_alone_say(
    honest: Reported, members: Members, node: int, reporters: int, liar: int, exponent: float
) -> None:
    """Whatever it says, and although its lie would move the place that all of them together give."""
    found, about = measured_by(honest, node, reporters)
    rtt_ms = found.rtt_ms.copy()
    rtt_ms[about[liar]] *= 10**exponent
    lied = place_by_others(members, found._replace(rtt_ms=rtt_ms).reports())
    only_about = np.arange(len(found.target)) == about[liar]
    others = place_by_others(members, found.without(only_about).reports())
    others_say = np.exp(mean_and_spread(others.members, np.array([node]), slice(0, honest.nodes))[0])
    there = (np.arange(honest.nodes) != node) & others.is_placed
    assert (lied.row(node)[0] <= others_say * 1.001)[there].all()


@pytest.mark.parametrize("factor", [1e-6, 0.25, 4, 1e6])
def test_one_of_few_reporters_has_no_report_of_the_node_left_out(honest: Reported, factor: float) -> None:
    found, about = measured_by(honest, 7, MIN_REPORTERS)
    rtt_ms = found.rtt_ms.copy()
    rtt_ms[about[0]] *= factor
    lied = found._replace(rtt_ms=rtt_ms)
    assert not lied.placed().implausible(lied.reports())[found.reporter == 7].any()


@settings(max_examples=200)
@given(st.integers(10, 40), st.integers(0, 2**32 - 1), st.floats(-20, 20))
def test_one_reporter_never_sets_a_limit_alone(reporters: int, seed: int, claim: float) -> None:
    """Whatever it is off by: the limit is at most what another one is off by, and the least there is."""
    rng = np.random.default_rng(seed)
    reporter, error = np.repeat(np.arange(reporters), 5), rng.standard_cauchy(5 * reporters)
    error[reporter == 3] = claim
    others = error[reporter != 3].max()
    assert plausibility._limit(error, reporter) <= max(plausibility._MIN_LIMIT, others)


def test_a_node_is_taken_out_of_a_rack_that_it_only_says_it_is_in() -> None:
    network = rack_network(3, 3, 8, np.random.default_rng(1))
    racks = np.arange(len(network.rtt_ms)) // 8
    found = reported(network.rtt_ms)
    pairs = build_pairs(found.nodes, found.reporter, found.target, found.rtt_ms)
    lied = racks.copy()
    lied[0] = racks[-1]
    level = fit_group_medians(lied, pairs).without_mistrusted(found.reports())
    assert level.group_of.tolist() == [-1, *racks[1:].tolist()]
