"""The status that a policy shows: conditions, and every problem by its field."""

from typing import Any

from leadsman.decision.inputs import RefusedPolicy
from leadsman.decision.telemetry.taspolicy import PolicyProblem
from leadsman.decision.telemetry.taspolicy_document import build_status
from tests.leadsman.decision.telemetry.conftest import Tas

NOW, BEFORE = "2026-01-01T00:00:05Z", "2026-01-01T00:00:00Z"


def verdicts(found: Any) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}


def test_a_good_policy_is_accepted_and_active(tas: Tas) -> None:
    found = build_status(tas.policy(dontschedule=[tas.rule("m", "Equals")]), None, None, NOW)
    assert verdicts(found) == {"Accepted": ("True", "Accepted"), "Active": ("True", "Active")}
    assert found["problems"] == []


def test_a_bad_version_is_not_accepted_and_the_last_good_one_active(tas: Tas) -> None:
    refused = RefusedPolicy(PolicyProblem("spec.x", "got 7"), generation=4)
    found = build_status(tas.policy(dontschedule=[tas.rule("m", "Equals")]), refused, None, NOW)
    assert verdicts(found) == {"Accepted": ("False", "Invalid"), "Active": ("True", "LastGoodVersion")}
    assert found["observedGeneration"] == 4
    assert found["problems"] == [{"field": "spec.x", "message": "got 7"}]
    assert verdicts(build_status(None, refused, None, NOW))["Active"] == ("False", "Invalid")


def test_without_rules_or_without_any_metric_it_is_not_active(tas: Tas) -> None:
    assert verdicts(build_status(tas.policy(), None, None, NOW))["Active"] == ("False", "NoRules")
    both = tas.policy(dontschedule=[tas.rule("m", "Equals"), tas.rule("n", "Equals")])
    assert verdicts(build_status(both, None, None, NOW, ["m"]))["Active"] == ("True", "Active")
    assert verdicts(build_status(both, None, None, NOW, ["m", "n"]))["Active"] == ("False", "NoMetrics")


def test_a_condition_that_did_not_change_keeps_its_time(tas: Tas) -> None:
    policy = tas.policy(dontschedule=[tas.rule("m", "Equals")])
    first = build_status(policy, None, None, BEFORE)
    assert build_status(policy, None, first, NOW) == first
    changed = build_status(policy, None, first, NOW, ["m"])
    times = {each["type"]: each["lastTransitionTime"] for each in changed["conditions"]}
    assert times == {"Accepted": BEFORE, "Active": NOW}
