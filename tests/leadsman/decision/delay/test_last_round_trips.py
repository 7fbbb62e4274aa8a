"""A bound to a dead node is judged by what was measured last, as nobody can measure it now."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct

from leadsman.decision.decide import decide, filter_nodes
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.explain import explain, format_explanation
from leadsman.decision.inputs import DecisionInputs, EstimatedRow, LastRoundTrips
from leadsman.decision.model import PodInfo
from tests.leadsman.decision.conftest import Make

NODES = ["near", "far", "other"]
POD = PodInfo("default", "cam-2", labels={"delay_gone": "5"})
LAST = {"gone": LastRoundTrips(70.0, {"near": 2.0, "far": 9.0})}
ALONE = "delay to gone over 5 ms"


def facts(make: Make, peers: Mapping[str, float | None] | None = None, **others: Any) -> DecisionInputs:
    """All nodes are fresh but `gone`, whose records went with its agent. peers: what each measured to it."""
    states = {node: make.state({} if peers is None else {"gone": peers[node]}) for node in NODES}
    return make.facts(states, last_round_trips=LAST, **others)


def reasons(inputs: DecisionInputs, pod: PodInfo = POD) -> dict[str, str]:
    return {node: refusal.reason for node, refusal in filter_nodes(pod, NODES, inputs).refused.items()}


def test_a_dead_node_whose_records_are_gone_is_still_a_target(make: Make) -> None:
    assert reasons(facts(make)) == {"far": ALONE, "other": "delay to gone was not measured"}


def test_a_fresh_measurement_counts_before_them(make: Make) -> None:
    assert reasons(facts(make, {"near": 6.0, "far": 4.0, "other": None})) == {
        "near": ALONE,
        "other": "no reply between the node and gone",
    }


@pytest.mark.parametrize("peers", [None, dict.fromkeys(NODES)])
def test_nobody_is_asked_to_probe_a_dead_node(make: Make, peers: Mapping[str, None] | None) -> None:
    assert select_probe_pairs(POD, NODES, facts(make, peers)) == ()


def test_explain_says_from_when_the_delay_is(make: Make) -> None:
    inputs = facts(make)
    text = format_explanation(explain(decide(POD, NODES, inputs), inputs))
    assert "2 ms from gone (before-failure, 30.0 s old), bound 5 ms" in text
    assert "9 ms from gone (before-failure, 30.0 s old), bound 5 ms" in text


class Doubts(Struct, frozen=True):
    """Estimates by which nothing below 8 ms to any node is believed, and 10 ms is expected."""

    made_at: float = 90.0

    def row(self, reference: str) -> EstimatedRow:
        same = [10.0] * len(NODES)
        return EstimatedRow(NODES, same, same, same, ["group"] * len(NODES), same, [8.0] * len(NODES))


def test_they_count_before_what_only_one_end_is_left_to_report(make: Make) -> None:
    """Of a dead node nothing but the other end reports, and one end alone is doubted."""
    states = {node: make.state({"gone": 0.5}) for node in NODES}
    doubted = make.facts(states, estimates=Doubts())
    assert reasons(doubted).keys() == set(NODES)
    assert reasons(make.facts(states, estimates=Doubts(), last_round_trips=LAST)).keys() == {"far", "other"}
