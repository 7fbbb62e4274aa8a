"""What is said of a pod that waits: the bound, the nearest node, by how much it misses, what would help."""

import pytest

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.planning.waiting_pods import wait_reason
from tests.leadsman.planning.measured import measured

NODES = ["edge-2", "edge-3", "edge-4"]


def inputs() -> DecisionInputs:
    """edge-2 is 12.5 ms and edge-3 80 ms from edge-1, 90 ms and 1 ms from edge-9; no other delay is known."""
    return measured(100.0, {"edge-1": {"edge-2": 12.5, "edge-3": 80.0}, "edge-9": {"edge-2": 90.0, "edge-3": 1.0}})


def reason(**bounds: str) -> tuple[str, str]:
    labels = {f"delay_{name.replace('_', '-')}": ms for name, ms in bounds.items()}
    subject, text = (said := wait_reason(PodInfo("shop", "cart", "uid-1", labels), NODES, inputs())).subject, said.text
    return subject, text


def test_the_nearest_node_is_named_with_what_it_misses_and_what_would_help() -> None:
    assert reason(edge_1="10") == (
        "edge-1: edge-2",
        "no node is within 10 ms of edge-1: the nearest, edge-2, is 12.5 ms away, 2.5 ms too far; raise the bound to"
        " 12.5 ms or more, or run edge-1 nearer to a node with room",
    )


def test_a_pod_with_nodes_within_its_bounds_is_refused_for_another_reason() -> None:
    subject, text = reason(edge_1="20")
    assert subject == "within: edge-2"
    assert text.startswith("1 of 3 nodes are within its delay bounds, edge-2 is the nearest; something else refuses")


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"edge_1": "-1"}, "correct it on the workload's pod template"),
        ({"nobody": "5"}, "start it, or correct the name in the bound"),
    ],
)
def test_a_bound_that_cannot_be_checked_says_what_to_correct(bounds: dict[str, str], said: str) -> None:
    assert said in reason(**bounds)[1]


def test_a_pod_whose_delays_are_all_unknown_says_so_and_not_that_they_are_too_long() -> None:
    said = wait_reason(PodInfo("shop", "cart", "uid-1", {"delay_edge-1": "10"}), ["edge-4"], inputs())
    assert said.subject == "unknown: edge-1"
    assert "no node's delay to edge-1 is known" in said.text
