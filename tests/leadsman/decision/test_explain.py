"""An explanation tells what the decision did, from the same facts."""

from unittest.mock import Mock

import pytest

from leadsman.decision.decide import decide, filter_nodes, score_nodes
from leadsman.decision.explain import Explanation, NodeExplanation, explain, format_explanation
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Decision
from leadsman.decision.policy import DelayPolicy, EstimateMode, Policy, digest
from leadsman.decision.pressure_score import PressureScore
from leadsman.state.metric_names import CPU_PRESSURE
from tests.leadsman.decision import make

PRESSURES = {"edge-1": 0.1, "edge-2": 0.5, "edge-3": 0.0, "edge-4": 0.2}
PEERS: dict[str, dict[str, float | None]] = {"edge-1": {"edge-2": 12.125, "edge-3": 40.0}}
EDGE = make.facts(
    make.confirmed({n: make.state(PEERS.get(n, {}), {CPU_PRESSURE: ratio}) for n, ratio in PRESSURES.items()})
)
"""edge-1 measured 12.125 ms to edge-2 and 40 ms to edge-3; nobody measured edge-4."""

NO_EDGE_9 = "no such node edge-9; workloads are not listed"
ASKED = ["edge-3", "edge-2", "edge-4"]


def node(explanation: Explanation, name: str) -> NodeExplanation:
    return next(each for each in explanation.nodes if each.node == name)


def test_the_scores_are_the_decisions() -> None:
    decision = decide(make.pod(), ASKED, EDGE)
    told = explain(decision, EDGE)
    assert {each.node: each.score for each in told.nodes} == decision.scores
    assert all(each.total is not None and int(10 * each.total + 0.5) == each.score for each in told.nodes)


def test_reasons_are_counted_as_kube_scheduler_counts_them() -> None:
    told = explain(decide(make.pod(**{"delay_edge-9": "5"}), ASKED, EDGE), EDGE)
    assert told.refused_by_reason == {NO_EDGE_9: 3}
    assert told.headline == f"default/pod-1: none of 3 nodes passes: 3 {NO_EDGE_9}"
    assert told.first is None


def test_an_unknown_part_is_marked_and_counts_as_the_median() -> None:
    states = {name: make.state({}, {CPU_PRESSURE: ratio}) for name, ratio in (("a", 0.0), ("b", 1.0))}
    facts = make.facts(states | {"c": make.state({}, {CPU_PRESSURE: 0.0}, "stale")})
    told = explain(decide(make.pod(), "abc", facts), facts)
    assert node(told, "c").values == {"pressure": 0.5}
    assert node(told, "c").unknown == {"pressure": "the node is stale"}
    assert "c     kept     5      ~0.50     15.0s stale\n" in format_explanation(told)
    assert format_explanation(told).endswith("\n~ unknown, counted as the median\n")


def test_neutral_says_why_and_names_no_first() -> None:
    told = explain(decide(make.pod(), ["a", "b"], make.facts({})), make.facts({}))
    assert told.headline == (
        "default/pod-1: 2 of 2 nodes pass, all alike: "
        "pressure: only 0 of 2 nodes have fresh data; at least half are needed"
    )
    assert (told.first, told.runner_up) == (None, None)
    assert "score not counted: pressure: only 0 of 2 nodes have fresh data" in format_explanation(told)


def test_a_waived_bound_is_told() -> None:
    policy = Policy(delay=DelayPolicy(estimate=EstimateMode.ACCEPT))
    facts = DecisionInputs(EDGE.snapshot, policy, EDGE.now)
    told = explain(decide(make.pod(**{"delay_edge-1": "50"}), ASKED, facts), facts)
    assert node(told, "edge-4").reason == "delay to edge-1 was not measured, accepted"
    assert told.policy == digest(policy)


def test_a_node_that_another_extender_took_away_is_kept_and_not_scored() -> None:
    pod = make.pod(**{"delay_edge-1": "50"})
    kept, refused = filter_nodes(pod, ASKED, EDGE)
    parts, scores, neutral = score_nodes(pod, ["edge-2"], EDGE)
    told = explain(Decision(pod, kept, refused, parts, scores, neutral), EDGE)
    taken = node(told, "edge-3")
    assert (taken.verdict, taken.score, taken.total, taken.values) == ("kept", None, None, {})
    assert (told.first, told.runner_up) == ("edge-2", None)


def test_the_filters_are_explained_with_their_own_facts() -> None:
    pod, later = make.pod(**{"delay_edge-1": "50"}), make.facts({})
    decision = Decision(pod, *filter_nodes(pod, ASKED, EDGE), (), {})
    assert node(explain(decision, later, EDGE), "edge-3").measured == {"rtt_ms edge-1": 40.0}


def test_a_plugin_that_fails_costs_only_its_own_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PressureScore, "evidence", Mock(side_effect=RuntimeError("out of order")))
    told = explain(decide(make.pod(**{"delay_edge-1": "50"}), ASKED, EDGE), EDGE)
    assert told.faults == {"pressure": "RuntimeError: out of order"}
    assert node(told, "edge-3").measured == {"rtt_ms edge-1": 40.0}
    assert "\nplugin pressure raised while explaining: RuntimeError: out of order\n" in format_explanation(told)


def test_the_text_is_a_headline_and_a_table_of_100_columns() -> None:
    told = format_explanation(explain(decide(make.pod(**{"delay_edge-1": "25"}), ASKED, EDGE), EDGE))
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


def test_5000_nodes_fit_a_terminal() -> None:
    near = {f"node-{number}": float(number) for number in range(5_000)}
    facts = make.facts({"ref": make.state(near)} | {node: make.state({"ref": ms}) for node, ms in near.items()})
    lines = format_explanation(explain(decide(make.pod(delay_ref="99"), list(near), facts), facts)).splitlines()
    assert len(lines) < 30
    assert max(map(len, lines)) <= 100
    assert "4980 more nodes" in lines
    assert "refused: 4900 delay to ref over 99 ms" in lines
