"""An explanation as a terminal shows it."""

from typing import TYPE_CHECKING

from leadsman.decision.decide import decide
from leadsman.decision.explain import explain, format_explanation
from leadsman.decision.inputs import DecisionInputs

if TYPE_CHECKING:
    from tests.leadsman.decision.conftest import Make


def test_the_text_is_a_headline_and_a_table_of_100_columns(edge: DecisionInputs, make: "Make") -> None:
    told = format_explanation(
        explain(decide(make.pod(**{"delay_edge-1": "25"}), ["edge-3", "edge-2", "edge-4"], edge), edge)
    )
    assert told == (
        "default/pod-1: only edge-2 of 3 nodes passes: 12.12 ms from edge-1 (measured by edge-1's agent,\n"
        "6.062 to 24.25 ms, 1.0 s old), bound 25 ms\n"
        "\n"
        "NODE    VERDICT  SCORE  NEAREST  PRESSURE  RTT_MS edge-1  AGE   REASON\n"
        "edge-2  kept     6      0.50     0.75      12.12          1.0s\n"
        "    12.12 ms from edge-1 (measured by edge-1's agent, 6.062 to 24.25 ms, 1.0 s old), bound 25 ms\n"
        "edge-3  refused  -      -        -         40             1.0s\n"
        "    delay to edge-1 over 25 ms: 40 ms from edge-1 (measured by edge-1's agent, 20 to 80 ms, 1.0 s\n"
        "    old), bound 25 ms\n"
        "edge-4  refused  -      -        -         -              1.0s  delay to edge-1 was not measured\n"
    )


def test_no_node_is_explained(make: "Make") -> None:
    facts = make.facts({})
    assert format_explanation(explain(decide(make.pod(), [], facts), facts)).startswith(
        "default/pod-1: kube-scheduler sent no node\n"
    )


def test_5000_nodes_fit_a_terminal(make: "Make") -> None:
    near = {f"node-{number}": float(number) for number in range(5_000)}
    facts = make.facts({"ref": make.state(near)} | {node: make.state({"ref": ms}) for node, ms in near.items()})
    lines = format_explanation(explain(decide(make.pod(delay_ref="99"), list(near), facts), facts)).splitlines()
    assert len(lines) < 30
    assert max(map(len, lines)) <= 100
    assert "4980 more nodes" in lines
    assert "refused: 4900 delay to ref over 99 ms" in lines
