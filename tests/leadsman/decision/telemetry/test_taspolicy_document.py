"""TASPolicy: what the original accepts is accepted; what has a meaning and cannot be read is refused by its path."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from leadsman.decision.telemetry.taspolicy import FailMode, LogicalOperator, Operator, RuleLabel, Scoring
from leadsman.decision.telemetry.taspolicy_document import MAX_LABELS, BadTasPolicy, parse_taspolicy

if TYPE_CHECKING:
    from tests.leadsman.decision.telemetry.conftest import Tas

DOCUMENTED = Path(__file__).parents[3] / "data" / "taspolicies"


@pytest.mark.parametrize("file", sorted(DOCUMENTED.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_original_s_documented_policies_are_read_without_a_problem(file: Path) -> None:
    for plain in yaml.safe_load_all(file.read_text()):
        found = parse_taspolicy(plain)
        assert found.problems == ()
        assert set(found.strategies) == set(plain["spec"]["strategies"])


def test_every_field_is_read(tas: "Tas") -> None:
    rules = [{"metricname": "m-1", "operator": "LessThan", "target": -7, "labels": ["a=b", "c="]}]
    plain = tas.obj(
        "p", "ns", {"maxAgeSeconds": 2.5, "failMode": "closed"}, labeling={"rules": rules, "logicalOperator": "allOf"}
    )
    plain["metadata"]["generation"] = 3
    plain["spec"]["strategies"]["scheduleonmetric"] = {"policyName": "x", "rules": rules, "scoring": "proportional"}
    found = parse_taspolicy(plain)
    assert (found.key, found.generation, found.max_age_seconds, found.fail_mode) == (
        ("ns", "p"),
        3,
        2.5,
        FailMode.CLOSED,
    )
    assert found.labeling is not None
    assert found.labeling.logic is LogicalOperator.ALL_OF
    (rule,) = found.labeling.rules
    assert (rule.metric, rule.operator, rule.target) == ("m-1", Operator.LESS_THAN, -7)
    assert rule.labels == (RuleLabel("a", "b"), RuleLabel("c", ""))
    assert found.scheduleonmetric is not None
    assert found.scheduleonmetric.scoring is Scoring.PROPORTIONAL
    assert found.metrics == {"m-1"}


def test_defaults_are_the_original_s(tas: "Tas") -> None:
    found = parse_taspolicy(tas.obj(dontschedule=[{"metricname": "m", "operator": "Equals"}]))
    assert found.dontschedule is not None
    assert (found.dontschedule.rules[0].target, found.dontschedule.logic) == (0, LogicalOperator.ANY_OF)
    assert (found.fail_mode, found.max_age_seconds) == (FailMode.OPEN, None)


@pytest.mark.parametrize("spec", [None, {}, {"strategies": {}}, {"strategies": {"dontschedule": {"rules": []}}}])
def test_a_policy_without_rules_is_one(spec: Any) -> None:
    assert parse_taspolicy({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}).metrics == frozenset()


RULE = {"metricname": "m", "operator": "Equals"}


NAMES, OPERATORS = "letters, digits, _ and -", "Equals, LessThan or GreaterThan"
WHOLE, TEXTS, RULES = "a whole number of 64 bits", "a list of texts such as key=value", "a list of rules"


@pytest.mark.parametrize(
    ("strategy", "path", "got", "allowed"),
    [
        ({"rules": [{**RULE, "metricname": "a b"}]}, ".rules[0].metricname", "got 'a b'", NAMES),
        ({"rules": [{**RULE, "metricname": "a\n"}]}, ".rules[0].metricname", "got 'a\\n'", NAMES),
        ({"rules": [RULE, {**RULE, "operator": "Above"}]}, ".rules[1].operator", "got 'Above'", OPERATORS),
        ({"rules": [{"metricname": "m"}]}, ".rules[0].operator", "missing", OPERATORS),
        ({"rules": [{**RULE, "target": 1.5}]}, ".rules[0].target", "got 1.5", WHOLE),
        ({"rules": [{**RULE, "target": 2**63}]}, ".rules[0].target", f"got {2**63}", WHOLE),
        ({"rules": [{**RULE, "target": -(2**63) - 1}]}, ".rules[0].target", f"got {-(2**63) - 1}", WHOLE),
        ({"rules": [{**RULE, "labels": "a=b"}]}, ".rules[0].labels", "got 'a=b'", TEXTS),
        ({"rules": [RULE], "logicalOperator": "noneOf"}, ".logicalOperator", "got 'noneOf'", "anyOf or allOf"),
        ({"rules": [RULE], "scoring": "best"}, ".scoring", "got 'best'", "rank or proportional"),
        ({}, ".rules", "missing", RULES),
        ({"rules": None}, ".rules", "got nothing", RULES),
        (7, "", "got 7", "an object"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_path(strategy: Any, path: str, got: str, allowed: str) -> None:
    plain = {"metadata": {"name": "p"}, "spec": {"strategies": {"scheduleonmetric": strategy}}}
    with pytest.raises(BadTasPolicy) as refused:
        parse_taspolicy(plain)
    assert str(refused.value) == f"spec.strategies.scheduleonmetric{path}: {got}, allowed is {allowed}"


SECONDS = "a number of seconds, more than 0 and at most 86400"


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"failMode": "ajar"}, "failMode: got 'ajar', allowed is open or closed"),
        ({"maxAgeSeconds": 0}, f"maxAgeSeconds: got 0, allowed is {SECONDS}"),
        ({"maxAgeSeconds": 86401}, f"maxAgeSeconds: got 86401, allowed is {SECONDS}"),
    ],
)
def test_our_own_fields_are_checked_too(tas: "Tas", metrics: Any, message: str) -> None:
    with pytest.raises(BadTasPolicy) as refused:
        parse_taspolicy(tas.obj(metrics=metrics))
    assert str(refused.value) == f"spec.metrics.{message}"


@pytest.mark.parametrize("target", [10.0, 1e3, -(2.0**63)])
def test_a_target_that_equals_a_whole_number_is_one_as_the_api_server_reads_it(tas: "Tas", target: Any) -> None:
    found = parse_taspolicy(tas.obj(dontschedule=[{**RULE, "target": target}]))
    assert found.dontschedule is not None
    read = found.dontschedule.rules[0].target
    assert (read, type(read)) == (int(target), int)


RULE_FIELDS, STRATEGY_FIELDS = "metricname, operator, target, labels", "rules, logicalOperator, scoring, policyName"


@pytest.mark.parametrize(
    ("plain", "path", "text"),
    [
        ({"spec": {}}, "spec.strategies", "is missing, so the policy does nothing"),
        ({}, "spec.strategies", "is missing, so the policy does nothing"),
        ({"spec": {"strategies": {}}}, "spec.strategies", "is empty, so the policy does nothing"),
        (
            {"spec": {"strategies": {"labeling": {"rules": [RULE]}}, "dontschedule": {"rules": [RULE]}}},
            "spec.dontschedule",
            "is ignored here; move it to spec.strategies.dontschedule",
        ),
        (
            {"spec": {"strategies": {"labeling": {"rules": [RULE]}}}, "strategies": {}},
            "strategies",
            "is ignored; known fields are apiVersion, kind, metadata, spec, status",
        ),
        (
            {"spec": {"strategies": {"labeling": {"rules": [RULE], "logicaloperator": "allOf"}}}},
            "spec.strategies.labeling.logicaloperator",
            f"is ignored; known fields are {STRATEGY_FIELDS}",
        ),
        (
            {"spec": {"strategies": {"labeling": {"rules": [RULE, {**RULE, "Target": 5}]}}}},
            "spec.strategies.labeling.rules[1].Target",
            f"is ignored; known fields are {RULE_FIELDS}",
        ),
        (
            {"spec": {"strategies": {"labeling": {"rules": [RULE]}}, "metrics": {"failmode": "closed"}}},
            "spec.metrics.failmode",
            "is ignored; known fields are maxAgeSeconds, failMode",
        ),
    ],
)
def test_what_is_not_used_is_named_and_the_rest_works(plain: Any, path: str, text: str) -> None:
    found = parse_taspolicy({"metadata": {"name": "p"}, **plain})
    assert (problem := found.problems[0]).path == path
    assert problem.text == text
    assert len(found.problems) == 1


@pytest.mark.parametrize("plain", [{}, {"metadata": None}, {"metadata": {"name": "p"}, "spec": "x"}])
def test_an_object_of_another_shape_is_refused(plain: Any) -> None:
    with pytest.raises(BadTasPolicy):
        parse_taspolicy(plain)


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("foo", "has no value, allowed is key=value"),
        ("=x", "the key is no label name"),
        ("a/b=x", "the key is no label name"),
        ("ключ=x", "the key is no label name"),
        ("k" * 64 + "=x", "the key is no label name"),
        ("a=b=c", "the value is no label value"),
        ("a=" + "v" * 64, "the value is no label value"),
        ("a=b\n", "the value is no label value"),
    ],
)
def test_a_label_that_no_node_can_carry_is_a_problem_and_the_others_work(tas: "Tas", label: str, why: str) -> None:
    """The original stopped labelling all nodes."""
    found = parse_taspolicy(tas.obj(labeling=[tas.rule("m", "Equals", 0, "good=1", label)]))
    assert found.labeling is not None
    assert found.labeling.rules[0].labels == (RuleLabel("good", "1"),)
    (problem,) = found.problems
    assert problem.path == "spec.strategies.labeling.rules[0].labels[1]"
    assert why in problem.text


def test_what_does_nothing_is_said(tas: "Tas") -> None:
    found = parse_taspolicy(
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


def test_more_labels_than_a_policy_may_set_are_refused(tas: "Tas") -> None:
    labels = [f"l{number}=x" for number in range(MAX_LABELS + 1)]
    rules = [{"metricname": "m", "operator": "LessThan", "target": 1, "labels": labels[at : at + 40]} for at in (0, 40)]
    with pytest.raises(BadTasPolicy, match=r"spec\.strategies\.labeling\.rules: have 65 labels, allowed are 64"):
        parse_taspolicy(tas.obj("p", "ns", labeling={"rules": rules}))


def test_a_spec_of_a_megabyte_is_refused(tas: "Tas") -> None:
    with pytest.raises(BadTasPolicy, match=r"spec: has 1,0\d\d,\d\d\d bytes in JSON, allowed are 65,536"):
        parse_taspolicy(tas.obj("p", "ns", {"x": "x" * 1_000_000}))


def test_a_mark_that_no_node_can_carry_is_a_problem_and_no_rule(tas: "Tas") -> None:
    rules = {"rules": [{"metricname": "m", "operator": "LessThan", "target": 1}]}
    found = parse_taspolicy(tas.obj("n" * 64, "ns", deschedule=rules, dontschedule=rules))
    assert found.deschedule is not None
    assert (found.deschedule.rules, len(found.problems)) == ((), 1)
    assert found.problems[0].text.endswith("so deschedule does nothing; shorten the policy name to 63 characters")
    assert found.dontschedule is not None
    assert len(found.dontschedule.rules) == 1
