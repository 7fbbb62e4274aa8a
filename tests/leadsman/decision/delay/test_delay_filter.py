"""A delay bound is hard: a node passes only when every bound is known to hold there."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from leadsman.decision.decide import decide, filter_nodes
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.explain import explain, format_explanation
from leadsman.decision.inputs import DecisionInputs, LastRoundTrips
from leadsman.decision.model import PodInfo
from tests.leadsman.decision import make


def _spread(workloads: int) -> tuple[DecisionInputs, PodInfo]:
    """A pod with a bound to each of so many workloads, of 16 nodes each."""
    nodes = [f"n-{number}" for number in range(16)]
    running: dict[str, Any] = {
        f"deployment_w-{number}": [f"p-{node}@{node}" for node in nodes] for number in range(workloads)
    }
    facts = make.facts({node: make.state({}) for node in nodes}, workloads=make.workloads(**running))
    return facts, make.pod(**{f"delay_w-{number}": "5" for number in range(workloads)})


def test_bounds_of_one_pod_to_too_many_nodes_are_refused_by_their_number() -> None:
    facts, pod = _spread(9)
    reasons = {refusal.reason for refusal in filter_nodes(pod, ["n-0", "n-1"], facts).refused.values()}
    assert reasons == {"the pod's delay bounds are to 144 nodes in all; at most 128 are allowed"}


def test_an_evaluation_that_nobody_waits_for_stops_at_its_next_reference() -> None:
    steps = list[int]()

    def stop_at_third() -> None:
        steps.append(1)
        if len(steps) == 3:
            raise InterruptedError

    facts, pod = _spread(8)
    with pytest.raises(InterruptedError):
        filter_nodes(pod, ["n-0"], structs.replace(facts, checkpoint=stop_at_third))
    assert len(steps) == 3


# A bound to a dead node is judged by what was measured last, as nobody can measure it now.

THREE = ["near", "far", "other"]
POD = PodInfo("default", "cam-2", labels={"delay_gone": "5"})
LAST = {"gone": LastRoundTrips(70.0, {"near": 2.0, "far": 9.0})}
ALONE = "delay to gone over 5 ms"


def facts(peers: Mapping[str, float | None] | None = None, **others: Any) -> DecisionInputs:
    """All nodes are fresh but `gone`, whose records went with its agent. peers: what each measured to it."""
    states = {node: make.state({} if peers is None else {"gone": peers[node]}) for node in THREE}
    return make.facts(states, last_round_trips=LAST, **others)


def reasons(inputs: DecisionInputs, pod: PodInfo = POD) -> dict[str, str]:
    return {node: refusal.reason for node, refusal in filter_nodes(pod, THREE, inputs).refused.items()}


def test_a_dead_node_whose_records_are_gone_is_still_a_target() -> None:
    assert reasons(facts()) == {"far": ALONE, "other": "delay to gone was not measured"}


def test_a_fresh_measurement_counts_before_them() -> None:
    assert reasons(facts({"near": 6.0, "far": 4.0, "other": None})) == {
        "near": ALONE,
        "other": "no reply between the node and gone",
    }


@pytest.mark.parametrize("peers", [None, dict.fromkeys(THREE)])
def test_nobody_is_asked_to_probe_a_dead_node(peers: Mapping[str, None] | None) -> None:
    assert select_probe_pairs(POD, THREE, facts(peers)) == ()


def test_explain_says_from_when_the_delay_is() -> None:
    inputs = facts()
    text = format_explanation(explain(decide(POD, THREE, inputs), inputs))
    assert "2 ms from gone (before-failure, 30.0 s old), bound 5 ms" in text
    assert "9 ms from gone (before-failure, 30.0 s old), bound 5 ms" in text


def test_they_count_before_what_only_one_end_is_left_to_report() -> None:
    """Of a dead node nothing but the other end reports, and one end alone is doubted."""
    states = {node: make.state({"gone": 0.5}) for node in THREE}
    doubts = make.Guesses({("gone", node): (10.0, 10.0, 10.0) for node in THREE}, expected_ms=10.0, lowest_ms=8.0)
    assert reasons(make.facts(states, estimates=doubts)).keys() == set(THREE)
    assert reasons(make.facts(states, estimates=doubts, last_round_trips=LAST)).keys() == {"far", "other"}
