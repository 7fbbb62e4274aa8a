"""Estimates under the nodes' names, from one fit to the next."""

import numpy as np
import pytest
from msgspec import structs

from leadsman.decision.policy import Statistic
from leadsman.network.fitting import FitBudget
from leadsman.sources.delay import fitted_estimates as module
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates, gather_measurements
from leadsman.state.records import Identity, Latency
from leadsman.state.snapshot import Snapshot
from tests.leadsman.sources.delay.conftest import node_state, random_plane, snapshot_of

QUICK = FitBudget(members=3, steps=200, landmarks=40, calibration_rounds=2)


def fit(snapshot: Snapshot, before: FittedEstimates | None = None) -> FittedEstimates:
    return fit_estimates(gather_measurements(snapshot, 1.0, Statistic.P50), 7.0, before, QUICK)


@pytest.fixture(scope="module")
def plane() -> FittedEstimates:
    return fit(random_plane())


def test_a_row_has_every_node_with_an_interval_and_its_source(plane: FittedEstimates) -> None:
    row = plane.row("n-00")
    assert set(row.nodes) == set(random_plane().nodes)
    assert set(row.source) == {"measured", "coordinates"}
    assert all(low <= rtt <= high for low, rtt, high in zip(row.low_ms, row.rtt_ms, row.high_ms, strict=True))
    assert plane.made_at == 7.0


def test_after_every_delay_has_moved_nothing_is_left_of_the_fit_before(plane: FittedEstimates) -> None:
    before = random_plane()
    slower = {node: {peer: 3 * ms for peer, ms in medians_ms(before, node).items()} for node in before.nodes}
    elsewhere = Snapshot({node: node_state(peers) for node, peers in slower.items()})
    assert fit(elsewhere, plane).row("n-00") == fit(elsewhere).row("n-00")


def test_after_most_nodes_joined_nothing_is_left_of_the_fit_before(plane: FittedEstimates) -> None:
    now = random_plane()
    few = {n: {peer: ms for peer, ms in medians_ms(now, n).items() if peer < "n-10"} for n in plane.measured.nodes[:10]}
    before = fit(Snapshot({node: node_state(peers) for node, peers in few.items()}))
    assert fit(now, before).row("n-00") == plane.row("n-00")


def was(before: FittedEstimates, snapshot: Snapshot) -> list[int]:
    now = gather_measurements(snapshot, 1.0, Statistic.P50)
    return module._previous_indices(before.measured.nodes, before.measured.sites, now).tolist()


def test_a_node_set_up_elsewhere_begins_anew_and_one_whose_agent_is_away_does_not() -> None:
    peers = {"b": 5.0, "c": 6.0}
    at = {n: node_state(peers, (address, "z", "r")) for n, address in (("a", "1"), ("b", "2"), ("c", "3"))}
    before = fit(snapshot_of(**at))
    moved = snapshot_of(a=node_state(peers, ("9", "z", "r")), b=node_state(peers), c=at["c"])
    assert was(before, moved) == [-1, 1, 2]


def test_a_node_whose_delays_all_moved_begins_beside_its_nearest_peer(plane: FittedEstimates) -> None:
    """n-00 is now as far from everybody as n-01 is, and next to it."""
    truth = medians_ms(random_plane(peers=39), "n-01")
    peers = {n: truth.get(n, 0.5) for n in random_plane().nodes["n-00"].latency.peers} | {"n-01": 0.5}
    states = {}
    for node, state in random_plane().nodes.items():  # Without what others measured of n-00 where it was.
        windows = {peer: window for peer, window in state.latency.peers.items() if peer != "n-00"}
        states[node] = structs.replace(state, latency=Latency(windows))
    states["n-00"] = node_state(peers)
    measured = gather_measurements(Snapshot(states), 1.0, Statistic.P50)
    begins = module._warm_start(plane, measured).model.members[0].points
    assert np.array_equal(begins[:, 0], begins[:, 1])
    row = fit(Snapshot(states), plane).row("n-00")
    found = dict(zip(row.nodes, row.rtt_ms, strict=True))
    assert np.median([abs(found[n] / ms - 1) for n, ms in truth.items() if n != "n-00"]) < 0.15


def medians_ms(snapshot: Snapshot, node: str) -> dict[str, float]:
    """Peer → what the node measured to it."""
    peers = snapshot.nodes[node].latency.peers
    return {peer: window.p50_ms for peer, window in peers.items() if window.p50_ms is not None}


def test_a_peer_that_was_replaced_is_remembered(plane: FittedEstimates) -> None:
    row, former_ms = fit(random_plane(seed=1), plane).row("n-00"), medians_ms(random_plane(), "n-00")
    remembered = {
        node: ms for node, ms, source in zip(row.nodes, row.rtt_ms, row.source, strict=True) if source == "remembered"
    }
    both = sorted(remembered.keys() & former_ms.keys())
    assert both
    assert [remembered[node] for node in both] == pytest.approx([former_ms[node] for node in both], rel=1e-5)


def test_nothing_is_remembered_of_a_node_that_was_set_up_elsewhere() -> None:
    before, now = ({**random_plane(seed=seed).nodes} for seed in (0, 1))
    for states, address in ((before, "1"), (now, "2")):
        states["n-00"] = structs.replace(states["n-00"], identity=Identity("pod", 1, address))
    after = fit(Snapshot(now), fit(Snapshot(before)))
    assert "remembered" not in after.row("n-00").source
    assert "remembered" in after.row("n-01").source


@pytest.mark.parametrize(
    ("later_seconds", "ages_seconds"),
    [
        (10.0, [10.0]),
        (module.REMEMBER_EVERY_SECONDS, [0.0, module.REMEMBER_EVERY_SECONDS]),
        (module.MAX_REMEMBERED_SECONDS, [0.0, module.MAX_REMEMBERED_SECONDS]),
        (module.MAX_REMEMBERED_SECONDS + 1.0, [0.0]),
    ],
)
def test_measurements_are_remembered_every_few_minutes_and_for_an_hour(
    plane: FittedEstimates, later_seconds: float, ages_seconds: list[float]
) -> None:
    now = plane.made_at + later_seconds
    after = fit_estimates(gather_measurements(random_plane(), 1.0, Statistic.P50), now, plane, QUICK)
    assert [now - each.read_at for each in after.remembered] == ages_seconds
