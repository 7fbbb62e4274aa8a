"""Groups by name, from whatever is known of a pair."""

import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy, Statistic
from leadsman.network.measured_pairs import Floats
from leadsman.sources.delay.estimator import DelayGroups, group_nodes
from leadsman.sources.delay.fitted_estimates import fit_estimates, gather_measurements
from leadsman.sources.delay.matrix import DelayMatrix, parse_matrix
from leadsman.state.snapshot import Snapshot
from tests.leadsman.network.conftest import matrix
from tests.leadsman.sources.delay.conftest import QUICK, node_state, random_plane, snapshot_of


def found(
    snapshot: Snapshot, limits: list[float], *matrices: DelayMatrix, before: DelayGroups | None = None
) -> DelayGroups:
    return group_nodes(gather_measurements(snapshot, 1.0, Statistic.P50), None, matrices, limits, 7.0, before)


def test_the_slower_direction_counts() -> None:
    snapshot = snapshot_of(a=node_state({"b": 1.0}), b=node_state({"a": 6.0}))
    assert found(snapshot, [5]).named() == {"5 ms": []}


def test_a_static_matrix_is_grouped_by_the_worse_direction() -> None:
    static = parse_matrix("0 1 9\n2 0 1\n1 1 0", '{"c": 0, "b": 1, "a": 2}')
    assert found(Snapshot(), [5], static).named() == {"5 ms": [["a", "b"]]}


def test_an_estimated_pair_counts_with_the_upper_end_of_its_interval() -> None:
    measured = gather_measurements(random_plane(), 1.0, Statistic.P50)
    estimates = fit_estimates(measured, 0.0, budget=QUICK)
    groups = group_nodes(estimates.trusted, estimates.estimates, (), [40.0], 0.0)
    row = estimates.row("n-00")
    high = dict(zip(row.nodes, row.high_ms, strict=True))
    (mates,) = [group for group in groups.among(row.nodes)["40 ms"] if "n-00" in group]
    assert len(mates) > 1
    assert all(high[node] <= 40 * (1 + 1e-6) for node in mates)
    assert "coordinates" in {source for node, source in zip(row.nodes, row.source, strict=True) if node in mates}


@settings(max_examples=100)
@given(st.floats(0.001, 100), st.floats(0.001, 100))
def test_no_rounding_lets_a_pair_over_the_limit_in(ms: float, limit_ms: float) -> None:
    near = np.nextafter(limit_ms, np.inf)
    for rtt_ms in (ms, near):
        (layer,) = found(Snapshot(), [limit_ms], named_matrix(np.array([[0, rtt_ms], [rtt_ms, 0]]), ["a", "b"])).layers
        assert rtt_ms <= limit_ms or layer.group_of[0] != layer.group_of[1]


def test_groups_stay_while_they_hold_when_a_node_joins() -> None:
    """a and b were together; c is nearer to a, but may only come in if it is near b, too."""
    before = found(snapshot_of(a=node_state({"b": 4.0})), [5])
    now = snapshot_of(a=node_state({"b": 4.0, "c": 1.0}), c=node_state({"b": 9.0}))
    assert found(now, [5], before=before).named() == {"5 ms": [["a", "b"]]}
    assert found(now, [5]).named() == {"5 ms": [["a", "c"]]}


def test_among_some_nodes_each_is_in_one_group_of_a_layer() -> None:
    groups = found(snapshot_of(a=node_state({"b": 1.0, "c": 9.0}), c=node_state({"d": 1.0})), [5])
    assert groups.among(["d", "a", "c", "unknown"]) == {"5 ms": [["a"], ["c", "d"]]}


def test_a_bound_finds_every_node_in_reach_and_no_other() -> None:
    """On a measured network, whatever groups there are. The original looked in one cluster and found 34 to 74 %."""
    rtt_ms = matrix("planetlab_1")
    names = [f"n-{number:03}" for number in range(len(rtt_ms))]
    inputs = DecisionInputs(Snapshot(), Policy(), 0.0, delay_views=(named_matrix(rtt_ms, names),))
    slower, rng = np.maximum(rtt_ms, rtt_ms.T), np.random.default_rng(0)
    for reference, bound_ms in zip(rng.integers(len(names), size=50).tolist(), rng.integers(1, 300, 50), strict=True):
        pod = PodInfo("default", "p", labels={f"delay_{names[reference]}": f"{bound_ms}"})
        in_reach = np.flatnonzero(slower[reference] <= bound_ms)
        assert list(filter_nodes(pod, names, inputs).kept) == [names[number] for number in in_reach]


def named_matrix(rtt_ms: Floats, names: list[str]) -> DelayMatrix:
    return DelayMatrix({name: row for row, name in enumerate(names)}, rtt_ms)


def test_a_thousand_nodes_are_grouped_again_in_seconds() -> None:
    point = np.random.default_rng(0).uniform(0, 100, (2, 1000))
    square = named_matrix(np.hypot(*(point[:, :, None] - point[:, None])), [f"n-{number}" for number in range(1000)])
    before = None
    for _ in range(2):
        began = time.process_time()
        before = found(Snapshot(), [1.0, 5.0, 25.0], square, before=before)
        assert time.process_time() - began < 5
    assert [len(layer.group_of) for layer in before.layers] == [1000] * 3
