"""Who is named for reports that others contradict: liars, and hardly an honest node."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.decision.policy import Statistic
from leadsman.network.measured_pairs import Floats
from leadsman.simulator.generated_cluster import rack_network, random_peers
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates, gather_measurements
from leadsman.state.snapshot import Snapshot
from tests.leadsman.network.conftest import QUICK, matrix
from tests.leadsman.sources.delay.conftest import node_state

LIAR = 7
RttReports = dict[int, dict[int, float]]
"""Reporter → target → milliseconds; NaN: no reply."""


def planetlab() -> Floats:
    return matrix("planetlab_1")


def racks() -> Floats:
    return rack_network(3, 5, 16, np.random.default_rng(1)).rtt_ms


def reported(rtt_ms: Floats, peers: int = 16) -> RttReports:
    """Every node measures some others."""
    one, other = random_peers(len(rtt_ms), peers, np.random.default_rng(1))
    there = rtt_ms[one, other] > 0
    reports: RttReports = {node: {} for node in range(len(rtt_ms))}
    for reporter, target in zip(one[there].tolist(), other[there].tolist(), strict=True):
        reports[reporter][target] = float(rtt_ms[reporter, target])
    return reports


def fitted(reports: RttReports, before: FittedEstimates | None = None) -> FittedEstimates:
    states = {
        name(node): node_state({name(peer): ms if ms == ms else None for peer, ms in peers.items()})
        for node, peers in reports.items()
    }
    return fit_estimates(gather_measurements(Snapshot(states), 1.0, Statistic.P50), 1.0, before, QUICK)


def name(node: int) -> str:
    return f"n-{node:03}"


def one_lie(rtt_ms: Floats) -> tuple[RttReports, int]:
    """The liar says 0.001 ms of one node, which is not near it and does not probe it; and that node."""
    reports = reported(rtt_ms)
    target = next(
        peer
        for peer, ms in reports[LIAR].items()
        if ms > np.median(rtt_ms[LIAR]) and LIAR not in reports[peer] and rtt_ms[peer, LIAR] > 0
    )
    reports[LIAR][target] = 0.001
    return reports, target


@pytest.mark.parametrize("network", [planetlab, racks])
def test_at_most_one_honest_node_in_a_hundred_is_contradicted_though_many_have_an_implausible_report(network) -> None:
    found = fitted(reported(network()))
    nodes = len(found.measured.nodes)
    assert len(found.contradicted) <= nodes / 100
    assert len(found.implausible) > nodes / 20


@pytest.mark.parametrize("network", [planetlab, racks])
@pytest.mark.parametrize("lie_ms", [0.001, 1_000.0])
def test_a_node_that_lies_of_all_is_contradicted_and_nearly_nobody_else(network, lie_ms: float) -> None:
    reports = reported(network())
    reports[LIAR] = dict.fromkeys(reports[LIAR], lie_ms)
    found = fitted(reports)
    assert found.contradicted[name(LIAR)].startswith("other nodes contradict ")
    assert f" of the {len(reports[LIAR])} delays that it reports: to n-" in found.contradicted[name(LIAR)]
    assert len(found.contradicted) <= 1 + len(found.measured.nodes) / 100


@pytest.mark.parametrize("network", [planetlab, racks])
def test_one_lie_is_left_out_and_contradicted_once_the_other_end_measures(network) -> None:
    rtt_ms = network()
    reports, target = one_lie(rtt_ms)
    alone = fitted(reports)
    assert name(target) in alone.implausible[name(LIAR)]
    assert name(LIAR) not in alone.contradicted
    reports[target][LIAR] = float(rtt_ms[target, LIAR])
    assert f"that it reports: to {name(target)}" in fitted(reports).contradicted[name(LIAR)]


def test_a_node_that_nobody_gets_a_reply_from_is_named_for_that() -> None:
    reports = reported(racks())
    for peers in reports.values():
        if LIAR in peers:
            peers[LIAR] = float("nan")
    assert fitted(reports).contradicted[name(LIAR)] == (
        "fewer than 3 of the nodes that probe it get a reply, so no delay that it alone reports counts"
    )


# Estimates of a network in which one node lies about what it measured: the links stay where all others see them.

NODES = 60


def small_network(seed: int) -> Floats:
    return rack_network(3, 4, 5, np.random.default_rng(seed)).rtt_ms


def lied(rtt_ms: Floats, liar: int, factor: Floats) -> RttReports:
    """The liar multiplies what it measured of each node."""
    reports = reported(rtt_ms, 12)
    claims = {target: float(np.clip(ms * factor[target], 0.001, 60_000)) for target, ms in reports[liar].items()}
    return reports | {liar: claims}


def errors(fitted: FittedEstimates, truth: Floats, node: int) -> tuple[Floats, Floats]:
    """log(estimate / truth) of all pairs that nobody measured: those of the node, and the others."""
    one, other = np.triu_indices(NODES, 1)
    unmeasured = ~fitted.measured.pairs.find_pairs(one, other)[1]
    error = np.log(fitted.estimates.between(one, other).rtt_ms / truth[one, other])
    own = (one == node) | (other == node)
    return error[unmeasured & own], error[unmeasured & ~own]


@cache
def honest_fit(network: int) -> FittedEstimates:
    return fitted(reported(small_network(network), 12))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 2), st.integers(0, NODES - 1), st.integers(0, 2**32 - 1))
def test_one_liar_draws_no_link_nearer_and_moves_no_others_beyond_the_honest_spread(
    network: int, liar: int, seed: int
) -> None:
    """Whatever it says of each node. Honest spread: what the reports of nine of ten honest nodes are off by at most.
    Its own links it may make seem longer, as it could by answering late."""
    truth, honest = small_network(network), honest_fit(network).plausibility
    claims = lied(truth, liar, 10 ** np.random.default_rng(seed).uniform(-6, 6, NODES))
    own, others = errors(fitted(claims), truth, liar)
    spread = max(honest.highest, -honest.lowest)
    assert np.quantile(own, 0.1) >= -spread
    assert np.quantile(np.abs(others), 0.9) <= spread


def test_a_lie_about_one_node_is_left_out_and_estimated() -> None:
    truth = small_network(1)
    reports = reported(truth, 12)
    target = next(peer for peer in reports[LIAR] if truth[LIAR, peer] > 0.5)
    reports[LIAR][target] = 0.001
    found = fitted(reports)
    row = found.row(name(LIAR))
    at = row.nodes.index(name(target))
    assert name(target) in found.implausible[name(LIAR)]
    assert row.source[at] == "coordinates"
    assert row.rtt_ms[at] == pytest.approx(truth[LIAR, target], rel=0.5)
    assert row.lowest_ms[at] > 0.2


def test_a_liar_that_becomes_honest_is_believed_again() -> None:
    truth = small_network(1)
    before = fitted(lied(truth, LIAR, np.full(NODES, 1e-6)))
    assert name(LIAR) not in fitted(reported(truth, 12), before).implausible
