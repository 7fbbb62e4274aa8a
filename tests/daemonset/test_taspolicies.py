"""Our CRD takes every policy that the original's takes, and refuses what could not be read."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest

from leadsman.decision.telemetry import taspolicy
from tests.daemonset.conftest import MANIFESTS, ROOT, load


@pytest.fixture(scope="module")
def version() -> Any:
    """The one that the CRD serves."""
    (crd,) = load(MANIFESTS / "components/telemetry/crd.yaml")
    (only,) = crd["spec"]["versions"]
    return only


@pytest.fixture(scope="module")
def accepts(version) -> Callable[[Any], bool]:
    """As the API server checks a value; structural schemas have draft 4's keywords."""
    # Its import takes two seconds, and every worker collects all tests.
    from jsonschema import Draft4Validator

    Draft4Validator.check_schema(version["schema"]["openAPIV3Schema"])
    return Draft4Validator(version["schema"]["openAPIV3Schema"]).is_valid


def test_the_documented_policies_apply_unchanged(accepts: Callable[[Any], bool]) -> None:
    files = sorted((ROOT / "tests/data/taspolicies").glob("*.yaml"))
    assert len(files) == 3
    assert all(accepts(policy) for file in files for policy in load(file))


RULE = {"metricname": "m", "operator": "Equals"}


def policy(strategy: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"strategies": {"labeling": strategy or {"rules": [RULE]}}, **spec}}


@pytest.mark.parametrize(
    ("plain", "taken"),
    [
        ({"metadata": {"name": "p"}}, True),
        (policy({"rules": []}), True),
        (policy({"rules": [RULE], "policyName": "x", "logicalOperator": "allOf"}), True),
        (policy({"rules": [{**RULE, "target": -(2**63), "labels": ["a=b", "anything"]}]}), True),
        ({"metadata": {"name": "p"}, "spec": {"strategies": {"of-somebody-else": {"rules": [RULE]}}}}, True),
        (policy({"rules": [RULE], "scoring": "rank"}, metrics={"maxAgeSeconds": 0.5, "failMode": "closed"}), True),
        (policy({"rules": [{"metricname": "m"}]}), False),
        (policy({"rules": [{**RULE, "metricname": "a/b"}]}), False),
        (policy({"rules": [{**RULE, "operator": "NotEquals"}]}), False),
        (policy({"rules": [{**RULE, "target": "10"}]}), False),
        (policy({"rules": [{**RULE, "labels": "a=b"}]}), False),
        (policy({"rules": [RULE], "logicalOperator": "noneOf"}), False),
        (policy(metrics={"maxAgeSeconds": 0}), False),
        (policy(metrics={"maxAgeSeconds": 86401}), False),
    ],
)  # fmt: skip
def test_what_it_takes_can_be_read_and_what_it_refuses_cannot(
    accepts: Callable[[Any], bool], plain, taken: bool
) -> None:
    assert accepts(plain) is taken
    try:
        taspolicy.parse_taspolicy(copy.deepcopy(plain))
    except taspolicy.BadTasPolicy:
        assert not taken
    else:
        assert taken


def test_the_status_of_a_policy_is_taken_and_its_conditions_are_columns(
    accepts: Callable[[Any], bool], version
) -> None:
    refused = taspolicy.RefusedPolicy(taspolicy.PolicyProblem("spec.x", "got 7"), generation=2)
    columns = re.findall(r'@.type=="(\w+)"', str(version["additionalPrinterColumns"]))
    for problem in (None, refused):
        read = taspolicy.parse_taspolicy(policy())
        status = taspolicy.build_status(read, problem, None, "2026-01-01T00:00:00Z")
        assert accepts(policy() | {"status": status})
        assert set(columns) == {each["type"] for each in status["conditions"]}
    assert version["subresources"] == {"status": {}}
