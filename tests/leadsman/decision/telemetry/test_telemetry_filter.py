"""dontschedule as a filter: strict, in the pod's namespace, in words that kube-scheduler can count."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from leadsman.decision.decide import decide
from leadsman.decision.telemetry import telemetry_plugins
from leadsman.decision.telemetry.telemetry_plugins import TelemetryFilter
from tests.leadsman.decision.telemetry.conftest import Tas

NODES = ("a", "b", "c")


def refused(facts: Any, pod: Any, nodes: Any = NODES) -> Mapping[str, str]:
    found = TelemetryFilter().refusals(pod, nodes, facts)
    assert {refusal.plugin for refusal in found.values()} <= {"dontschedule"}
    return {node: refusal.reason for node, refusal in found.items()}


def test_a_node_that_violates_is_refused_and_policy_and_rule_are_named(tas: Tas) -> None:
    facts = tas.facts([tas.policy(dontschedule=[tas.rule("heat", "GreaterThan", 80)])], {"heat": {"a": 81, "b": 80}})
    assert refused(facts, tas.pod()) == {"a": "telemetry policy ns/p is violated: heat GreaterThan 80"}


@pytest.mark.parametrize("metrics", [{}, {"heat": {}}, {"heat": {"elsewhere": 99}}])
def test_an_absent_metric_refuses_nothing(tas: Tas, metrics: Any) -> None:
    facts = tas.facts([tas.policy(dontschedule=[tas.rule("heat", "GreaterThan", 80)])], metrics)
    assert refused(facts, tas.pod()) == {}


def test_the_policy_is_that_of_the_pod_s_namespace(tas: Tas) -> None:
    hot, cold = (
        tas.policy("p", n, dontschedule=[tas.rule("heat", o, 80)]) for n, o in (("x", "GreaterThan"), ("y", "LessThan"))
    )
    facts = tas.facts([hot, cold], {"heat": {"a": 81, "b": 79}})
    assert set(refused(facts, tas.pod(namespace="x"))) == {"a"}
    assert set(refused(facts, tas.pod(namespace="y"))) == {"b"}
    assert refused(facts, tas.pod(namespace="z")) == {}


def test_a_missing_policy_is_neutral_and_can_be_counted(tas: Tas) -> None:
    """The original answered 404."""
    facts = tas.facts([], {})
    decision = decide(tas.pod(), NODES, facts)
    assert (decision.kept, set(decision.scores.values())) == (NODES, {5})
    assert telemetry_plugins.is_policy_missing(tas.pod(), facts)
    assert not telemetry_plugins.is_policy_missing(tas.pod(""), facts)
    assert not telemetry_plugins.is_policy_missing(tas.pod(), tas.facts([tas.policy()]))


def test_stale_metrics_expire(tas: Tas) -> None:
    """The original never dropped the last value."""
    policy = tas.policy(dontschedule=[tas.rule("heat", "GreaterThan", 80)])
    fresh = tas.facts([policy], {"heat": {"a": 81}}, now=1000.0)
    old = structs.replace(fresh, now=1015.1)
    assert set(refused(fresh, tas.pod())) == {"a"}
    assert refused(old, tas.pod()) == {}


@pytest.mark.parametrize(
    ("logic", "metrics", "expected"),
    [
        ("anyOf", {"m": {"a": 0, "b": 0}, "n": {"a": 0}}, {"b": "n", "c": "m"}),
        ("anyOf", {"m": {"a": 2}, "n": {"a": 0, "b": 0, "c": 0}}, {"a": "GreaterThan", "b": "m", "c": "m"}),
        ("allOf", {"m": {"a": 0, "b": 2}, "n": {"c": 0}}, {"b": "n"}),
    ],
)
def test_fail_closed_refuses_where_what_is_missing_may_be_the_violation(
    tas: Tas, logic: str, metrics: Any, expected: dict[str, str]
) -> None:
    rules = [tas.rule("m", "GreaterThan", 1), tas.rule("n", "GreaterThan", 1)]
    policy = tas.policy(metrics={"failMode": "closed"}, dontschedule={"rules": rules, "logicalOperator": logic})
    found = refused(tas.facts([policy], metrics), tas.pod())
    assert set(found) == set(expected)
    for node, word in expected.items():
        assert (
            found[node].endswith(f"the node has no current {word}, and the policy fails closed") or word in found[node]
        )


def test_only_a_closed_dontschedule_holds_a_pod_when_nothing_can_be_decided(tas: Tas) -> None:
    rules = [tas.rule("m", "GreaterThan", 1)]
    closed = tas.policy(metrics={"failMode": "closed"}, dontschedule=rules)
    assert telemetry_plugins.fails_closed(tas.pod(), tas.facts([closed]))
    assert not telemetry_plugins.fails_closed(tas.pod(), tas.facts([tas.policy(dontschedule=rules)]))
    assert not telemetry_plugins.fails_closed(
        tas.pod(), tas.facts([tas.policy(metrics={"failMode": "closed"}, scheduleonmetric=rules)])
    )
