"""Who is named for reports that others contradict: liars, and hardly an honest node."""

from pathlib import Path

import numpy as np
import pytest

from leadsman.decision.policy import Statistic
from leadsman.network.fitting import FitBudget
from leadsman.network.measured_pairs import Floats
from leadsman.simulator.generated_cluster import rack_network, random_peers
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates, gather_measurements
from leadsman.state.snapshot import Snapshot
from tests.leadsman.sources.delay.conftest import Make

QUICK = FitBudget(members=4, steps=150, landmarks=64, calibration_rounds=2)
PEERS = 16
LIAR = 7
RttReports = dict[int, dict[int, float]]
"""Reporter → target → milliseconds; NaN: no reply."""


def planetlab() -> Floats:
    return np.loadtxt(Path(__file__).parents[3] / "data" / "rtt" / "planetlab_1.txt.gz")


def racks() -> Floats:
    return rack_network(3, 5, 16, np.random.default_rng(1)).rtt_ms


def reported(rtt_ms: Floats) -> RttReports:
    """Every node measures some others."""
    one, other = random_peers(len(rtt_ms), PEERS, np.random.default_rng(1))
    there = rtt_ms[one, other] > 0
    reports: RttReports = {node: {} for node in range(len(rtt_ms))}
    for reporter, target in zip(one[there].tolist(), other[there].tolist(), strict=True):
        reports[reporter][target] = float(rtt_ms[reporter, target])
    return reports


def fitted(reports: RttReports) -> FittedEstimates:
    states = {
        name(node): Make.state({name(peer): ms if ms == ms else None for peer, ms in peers.items()})
        for node, peers in reports.items()
    }
    return fit_estimates(gather_measurements(Snapshot(states), 1.0, Statistic.P50), 1.0, budget=QUICK)


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
