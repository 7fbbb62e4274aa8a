"""TASPolicy: what the original accepts is accepted; what has a meaning and cannot be read is refused by its path."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from leadsman.decision.telemetry import taspolicy
from tests.leadsman.decision.telemetry import tas

DOCUMENTED = Path(__file__).parents[3] / "data" / "taspolicies"


@pytest.mark.parametrize("file", sorted(DOCUMENTED.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_original_s_documented_policies_are_read_without_a_problem(file: Path) -> None:
    for plain in yaml.safe_load_all(file.read_text()):
        found = taspolicy.parse_taspolicy(plain)
        assert found.problems == ()
        assert set(found.strategies) == set(plain["spec"]["strategies"])


def test_every_field_is_read() -> None:
    rules = [{"metricname": "m-1", "operator": "LessThan", "target": -7, "labels": ["a=b", "c="]}]
    plain = tas.obj(
        "p", "ns", {"maxAgeSeconds": 2.5, "failMode": "closed"}, labeling={"rules": rules, "logicalOperator": "allOf"}
    )
    plain["metadata"]["generation"] = 3
    plain["spec"]["strategies"]["scheduleonmetric"] = {"policyName": "x", "rules": rules, "scoring": "proportional"}
    found = taspolicy.parse_taspolicy(plain)
    assert (found.key, found.generation) == (("ns", "p"), 3)
    assert (found.max_age_seconds, found.fail_mode) == (2.5, taspolicy.FailMode.CLOSED)
    assert found.labeling is not None
    assert found.labeling.logic is taspolicy.LogicalOperator.ALL_OF
    (rule,) = found.labeling.rules
    assert (rule.metric, rule.operator, rule.target) == ("m-1", taspolicy.Operator.LESS_THAN, -7)
    assert rule.labels == (taspolicy.RuleLabel("a", "b"), taspolicy.RuleLabel("c", ""))
    assert found.scheduleonmetric is not None
    assert found.scheduleonmetric.scoring is taspolicy.Scoring.PROPORTIONAL
    assert found.metrics == {"m-1"}


RULE = {"metricname": "m", "operator": "Equals"}


NAME = "text that matches ^[a-zA-Z0-9_-]+\\Z"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"rules": [{**RULE, "metricname": "a b"}]}, f".rules[0].metricname: got 'a b', allowed {NAME}"),
        ({"rules": [RULE, {**RULE, "operator": "Above"}]}, ".rules[1].operator: got 'Above', allowed Equals, LessThan"),
        ({"rules": [{"metricname": "m"}]}, ".rules[0].operator: missing, allowed Equals, LessThan, GreaterThan"),
        ({"rules": [{**RULE, "target": 1.5}]}, ".rules[0].target: expected int, got float"),
        ({"rules": [{**RULE, "labels": "a=b"}]}, ".rules[0].labels: expected array"),
        ({"rules": [RULE], "logicalOperator": "noneOf"}, ".logicalOperator: got 'noneOf', allowed anyOf, allOf"),
        ({}, ".rules: missing"),
        (7, ": got 7, allowed the fields rules, logicalOperator"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_path(spec: Any, said: str) -> None:
    with pytest.raises(taspolicy.BadTasPolicy) as refused:
        taspolicy.parse_taspolicy({"metadata": {"name": "p"}, "spec": {"strategies": {"scheduleonmetric": spec}}})
    assert str(refused.value).startswith(f"spec.strategies.scheduleonmetric{said}")


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"failMode": "ajar"}, "failMode: got 'ajar', allowed open, closed"),
        ({"maxAgeSeconds": 0}, "maxAgeSeconds: got 0, allowed a number above 0 to 86400"),
        ({"maxAgeSeconds": 86401}, "maxAgeSeconds: got 86401, allowed a number above 0 to 86400"),
    ],
)
def test_our_own_fields_are_checked_too(metrics: Any, said: str) -> None:
    with pytest.raises(taspolicy.BadTasPolicy) as refused:
        taspolicy.parse_taspolicy(tas.obj(metrics=metrics))
    assert str(refused.value) == f"spec.metrics.{said}"


@pytest.mark.parametrize("plain", [{}, {"metadata": None}, {"metadata": {"name": "p"}, "spec": "x"}])
def test_an_object_of_another_shape_is_refused(plain: Any) -> None:
    with pytest.raises(taspolicy.BadTasPolicy):
        taspolicy.parse_taspolicy(plain)


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("foo", "has no value, allowed is key=value"),
        ("=x", "the key is no label name"),
        ("ключ=x", "the key is no label name"),
        ("k" * 64 + "=x", "the key is no label name"),
        ("a=" + "v" * 64, "the value is no label value"),
        ("a=b\n", "the value is no label value"),
    ],
)
def test_a_label_that_no_node_can_carry_is_a_problem_and_the_others_work(label: str, why: str) -> None:
    """The original stopped labelling all nodes."""
    found = taspolicy.parse_taspolicy(tas.obj(labeling=[tas.rule("m", "Equals", 0, "good=1", label)]))
    assert found.labeling is not None
    assert found.labeling.rules[0].labels == (taspolicy.RuleLabel("good", "1"),)
    (problem,) = found.problems
    assert problem.path == "spec.strategies.labeling.rules[0].labels[1]"
    assert why in problem.text


def test_what_does_nothing_is_said() -> None:
    found = taspolicy.parse_taspolicy(
        tas.obj(
            "p" * 64,
            dontscedule=[],
            deschedule=[tas.rule("m", "Equals")],
            dontschedule=[],
            scheduleonmetric=[tas.rule("m", "Equals"), tas.rule("n", "Equals")],
            labeling=[tas.rule("m", "LessThan", 0, "x=1"), tas.rule("n", "GreaterThan", 0, "x=2")],
        )
    )
    assert [problem.path for problem in found.problems] == [
        "spec.strategies.dontscedule",
        "spec.strategies.dontschedule.rules",
        "spec.strategies.scheduleonmetric.rules[1]",
        "spec.strategies.labeling.rules[1].operator",
        "metadata.name",
    ]


def test_more_labels_than_a_policy_may_set_are_refused() -> None:
    labels = [f"l{number}=x" for number in range(taspolicy.MAX_LABELS + 1)]
    rules = [{"metricname": "m", "operator": "LessThan", "target": 1, "labels": labels[at : at + 40]} for at in (0, 40)]
    with pytest.raises(
        taspolicy.BadTasPolicy, match=r"spec\.strategies\.labeling\.rules: have 65 labels, allowed are 64"
    ):
        taspolicy.parse_taspolicy(tas.obj("p", "ns", labeling={"rules": rules}))


def test_a_spec_of_a_megabyte_is_refused() -> None:
    with pytest.raises(taspolicy.BadTasPolicy, match=r"spec: has 1,0\d\d,\d\d\d bytes in JSON, allowed are 65,536"):
        taspolicy.parse_taspolicy(tas.obj("p", "ns", {"x": "x" * 1_000_000}))


# The status that a policy shows: conditions, and every problem by its field.

NOW, BEFORE = "2026-01-01T00:00:05Z", "2026-01-01T00:00:00Z"


def verdicts(found: Any) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}


def test_a_good_policy_is_accepted_and_active() -> None:
    strange = {"conditions": ["of another CRD"]}
    found = taspolicy.build_status(tas.policy(dontschedule=[tas.rule("m", "Equals")]), None, strange, NOW)
    assert verdicts(found) == {"Accepted": ("True", "Accepted"), "Active": ("True", "Active")}
    assert found["problems"] == []


def test_a_bad_version_is_not_accepted_and_the_last_good_one_active() -> None:
    refused = taspolicy.RefusedPolicy(taspolicy.PolicyProblem("spec.x", "got 7"), generation=4)
    found = taspolicy.build_status(tas.policy(dontschedule=[tas.rule("m", "Equals")]), refused, None, NOW)
    assert verdicts(found) == {"Accepted": ("False", "Invalid"), "Active": ("True", "LastGoodVersion")}
    assert found["observedGeneration"] == 4
    assert found["problems"] == [{"field": "spec.x", "message": "got 7"}]
    assert verdicts(taspolicy.build_status(None, refused, None, NOW))["Active"] == ("False", "Invalid")


def test_without_rules_or_without_any_metric_it_is_not_active() -> None:
    assert verdicts(taspolicy.build_status(tas.policy(), None, None, NOW))["Active"] == ("False", "NoRules")
    both = tas.policy(dontschedule=[tas.rule("m", "Equals"), tas.rule("n", "Equals")])
    assert verdicts(taspolicy.build_status(both, None, None, NOW, ["m"]))["Active"] == ("True", "Active")
    assert verdicts(taspolicy.build_status(both, None, None, NOW, ["m", "n"]))["Active"] == ("False", "NoMetrics")


def test_a_condition_that_did_not_change_keeps_its_time() -> None:
    policy = tas.policy(dontschedule=[tas.rule("m", "Equals")])
    first = taspolicy.build_status(policy, None, None, BEFORE)
    assert taspolicy.build_status(policy, None, first, NOW) == first
    changed = taspolicy.build_status(policy, None, first, NOW, ["m"])
    times = {each["type"]: each["lastTransitionTime"] for each in changed["conditions"]}
    assert times == {"Accepted": BEFORE, "Active": NOW}
