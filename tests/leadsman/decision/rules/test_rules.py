"""Rules of the policy: what they refuse and score, what unknown means, and how they are explained."""

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from leadsman.decision.decide import decide
from leadsman.decision.explain import explain
from leadsman.decision.explain_text import format_explanation
from leadsman.decision.inputs import DecisionInputs, NodeLabels
from leadsman.decision.model import Decision, PodInfo
from leadsman.decision.policy import Policy, PolicyError, parse
from leadsman.decision.rules.rule_reads import missing_reads
from leadsman.state.records import Hardware, Heartbeat, Identity
from leadsman.state.snapshot import NodeState, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = 100.0
NODES = ("cool", "hot", "stale", "bare")
POD = PodInfo("shop", "web", labels={"zone": "a"}, requests={"memory": 2 << 30})

NOT_HOT = """
rules:
  filters:
    - name: not-hot
      expression: node.hardware["temperature_celsius"] < 80.0
      reason: the node is hotter than 80 °C
"""


def state(zone: str = "", *, fresh: bool = True, **metrics: float) -> NodeState:
    beat, at = Heartbeat(1, 1, 5.0), NOW - (1.0 if fresh else 60.0)
    return NodeState(Identity("agent", 1, "10.0.0.1", zone), beat, hardware=Hardware(metrics), changed_at=at)


def inputs(policy: str, labels: "Mapping[str, Mapping[str, str]] | None" = None) -> DecisionInputs:
    states = {
        "cool": state("a", temperature_celsius=40.0),
        "hot": state("b", temperature_celsius=90.0),
        "stale": state("a", temperature_celsius=95.0, fresh=False),
    }
    return DecisionInputs(
        Snapshot(nodes=states), parse(policy), NOW, node_labels=None if labels is None else NodeLabels(labels)
    )


def decided(policy: str, labels: "Mapping[str, Mapping[str, str]] | None" = None, pod: PodInfo = POD) -> Decision:
    return decide(pod, NODES, inputs(policy, labels))


def filter_rule(expression: str, on_unknown: str = "pass") -> str:
    return f"rules: {{filters: [{{name: r, expression: '{expression}', reason: refused, on_unknown: {on_unknown}}}]}}"


def score_rule(expression: str) -> str:
    return (
        f"rules: {{scores: [{{name: r, expression: '{expression}', weight: 1}}]}}\nscores: {{pressure: {{weight: 0}}}}"
    )


def test_a_node_for_which_the_rule_is_false_is_refused_with_its_reason():
    assert {node: refusal.reason for node, refusal in decided(NOT_HOT).refused.items()} == {
        "hot": "the node is hotter than 80 °C"
    }


def test_unknown_is_neither_true_nor_false_and_the_rule_says_what_it_means():
    text = NOT_HOT + "      on_unknown: refuse\n"
    refused = decided(text).refused
    assert refused.keys() == {"hot", "stale", "bare"}
    assert refused["bare"].reason == "rule not-hot cannot be checked: a value that the rule reads is unknown"


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ('node.zone == pod.labels["zone"]', ("cool",)),
        ('node.zone == pod.labels["absent"]', ()),
        ("node.fresh", ("cool", "hot")),
        ('node.name in ["hot", "bare"]', ("hot", "bare")),
        ('node.labels["pool"] == "gpu" && !("spare" in node.labels)', ("bare",)),
        ('quantity(node.labels["memory"]).isGreaterThan(pod.requests["memory"])', ("hot",)),
        ('pod.namespace == "shop"', NODES),
        ('node.hardware["absent"] > 0.0 || node.name == "hot"', ("hot",)),
    ],
)
def test_values_of_nodes_and_pod_are_joined(expression: str, kept: tuple[str, ...]):
    labels = {"cool": {}, "hot": {"memory": "4Gi"}, "bare": {"pool": "gpu", "memory": "1Gi"}}
    pod = structs.replace(POD, requests={"memory": (2 << 30) * 10**9})
    assert decided(filter_rule(expression, "refuse"), labels, pod).kept == kept


def test_labels_that_are_not_followed_are_unknown():
    assert decided(filter_rule('"pool" in node.labels', "refuse")).kept == ()


def test_a_score_is_0_to_1_and_an_unknown_one_is_the_median():
    decision = decided(score_rule('1.0 - node.hardware["temperature_celsius"] / 100.0'))
    assert decision.scores == {"cool": 6, "hot": 1, "stale": 4, "bare": 4}
    assert decision.plugin_scores[0].unknown.keys() == {"stale", "bare"}


def test_a_bool_is_a_score_of_1_or_0():
    assert decided(score_rule('node.name == "hot"')).scores == {"cool": 0, "hot": 10, "stale": 0, "bare": 0}


def test_a_node_that_reports_is_judged_by_its_new_value():
    before = inputs(NOT_HOT)
    assert decide(POD, NODES, before).refused.keys() == {"hot"}
    cooled = {**before.snapshot.nodes, "hot": state("b", temperature_celsius=60.0)}
    after = structs.replace(before, snapshot=Snapshot(nodes=cooled))
    assert not decide(POD, NODES, after).refused


def test_a_label_that_changes_counts_with_the_next_request():
    before = inputs(filter_rule('node.labels["pool"] == "gpu"', "refuse"), {"hot": {"pool": "gpu"}})
    assert decide(POD, NODES, before).kept == ("hot",)
    after = structs.replace(before, node_labels=NodeLabels({"cool": {"pool": "gpu"}}))
    assert decide(POD, NODES, after).kept == ("cool",)


def test_an_explanation_shows_the_rule_and_what_it_read():
    policy = NOT_HOT.replace("< 80.0", '< 80.0 || node.zone == pod.labels["zone"]')
    given = inputs(policy)
    explanation = explain(decide(POD, NODES, given), given)
    hot = next(node for node in explanation.nodes if node.node == "hot")
    assert (hot.plugin, hot.reason) == ("not-hot", "the node is hotter than 80 °C")
    assert hot.measured['node.hardware["temperature_celsius"]'] == 90.0
    assert hot.texts["node.zone"] == "b"
    assert explanation.pod_values == {'pod.labels["zone"]': "a"}
    text = format_explanation(explanation)
    assert 'rule not-hot: node.hardware["temperature_celsius"] < 80.0 || node.zone == pod.labels["zone"]' in text
    assert 'pod.labels["zone"] is a' in text


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (filter_rule("node.hot"), "line 1, column 5: node has no field 'hot'"),
        (filter_rule("1.0"), "rule r is double; must be bool"),
        (score_rule("node.zone"), "rule r is string; must be double or bool"),
        ("rules: {filters: [{name: R, expression: 'true', reason: refused}]}", "$.rules.filters[0].name"),
        ("rules: {filters: [{name: r, expression: 'true', reason: refused, on_unknown: x}]}", "allowed pass, refuse"),
        (
            "rules: {filters: [{name: r, expression: 'true', reason: a}, {name: r, expression: 'true', reason: b}]}",
            "$.rules: got the rule r twice, allowed once",
        ),
    ],
)
def test_a_policy_with_a_bad_rule_is_refused_by_its_path(policy: str, error: str):
    with pytest.raises(PolicyError) as caught:
        parse(policy)
    assert error in str(caught.value)
    assert "$.rules" in str(caught.value)


def test_a_policy_that_reads_labels_which_are_not_recorded_says_so():
    recorded = parse(filter_rule('"pool" in node.labels || "team" in pod.labels'))
    assert missing_reads(recorded, recorded) == ""
    assert missing_reads(Policy(), recorded) == ""
    assert missing_reads(parse(filter_rule('"app" in pod.labels')), recorded) == "", "always recorded"
    assert 'rule r reads node.labels["zone"]' in missing_reads(parse(filter_rule('"zone" in node.labels')), recorded)
    assert 'rule r reads pod.labels["pool"]' in missing_reads(parse(filter_rule('"pool" in pod.labels')), recorded)
