"""Telemetry policies through the wire: what kube-scheduler is answered."""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct

from extender.decider import DecisionCore
from leadsman.decision.inputs import PolledMetrics, Readings, TasPolicies, TelemetryInputs
from leadsman.decision.telemetry import taspolicy_document
from leadsman.kube import quantity

GONE = "leadsman_telemetry_missing_policy_total"


class Fixed(Struct):
    current: Any
    problem: str = ""


def telemetry(values: Mapping[str, str], fail_mode: str = "open", namespace: str = "ns") -> Fixed:
    strategies = {
        "dontschedule": {"rules": [{"metricname": "m", "operator": "GreaterThan", "target": 10}]},
        "scheduleonmetric": {"rules": [{"metricname": "m", "operator": "LessThan"}]},
    }
    spec = {"strategies": strategies, "metrics": {"failMode": fail_mode}}
    policy = taspolicy_document.parse_taspolicy({"metadata": {"name": "p", "namespace": namespace}, "spec": spec})
    nanos = {node: quantity.parse(text) for node, text in values.items()}
    now = time.monotonic()
    table = PolledMetrics({"m": Readings(nanos, dict.fromkeys(nanos, now), now)}, max_age_seconds=600.0)
    return Fixed(TelemetryInputs(TasPolicies({policy.key: policy}, loaded=True), (table,)))


@pytest.fixture
def body(args: Any) -> Any:
    """body(nodes): of a pod that names the policy."""
    return lambda *nodes: args(nodes, **{"telemetry-policy": "p"})


async def test_filter_and_prioritize_follow_the_policy(starts: Any, body: Any) -> None:
    async with starts(telemetry=telemetry({"a": "10500m", "b": "10", "c": "1"})) as extender:
        answer = await extender.asked("/scheduler/filter", body("a", "b", "c"))
        assert answer["NodeNames"] == ["b", "c"]
        assert answer["FailedNodes"] == {}
        assert answer["FailedAndUnresolvableNodes"] == {"a": "telemetry policy ns/p is violated: m GreaterThan 10"}
        scores = await extender.asked("/scheduler/prioritize", body("b", "c"))
        assert scores == [{"Host": "b", "Score": 1}, {"Host": "c", "Score": 10}]


@pytest.mark.parametrize(
    "body",
    [{"Pod": None, "NodeNames": ["a"]}, {"Pod": {"metadata": {"name": "p"}}, "Nodes": None, "NodeNames": None}, {}],
)
async def test_what_made_the_original_panic_or_answer_nothing_is_a_clean_400(starts: Any, body: Any) -> None:
    async with starts(telemetry=telemetry({})) as extender:
        for verb in ("filter", "prioritize"):
            status, answer = await extender.post(f"/scheduler/{verb}", json.dumps(body).encode())
            assert status == 400
            assert answer


@pytest.mark.parametrize(("mode", "kept"), [("open", ["a"]), ("closed", [])])
async def test_when_nothing_can_be_decided_only_a_closed_policy_holds_its_pods(
    starts: Any, body: Any, mode: str, kept: list[str]
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("ours")

    async with starts(telemetry=telemetry({"a": "1"}, mode), core=DecisionCore(filter_nodes=broken)) as extender:
        assert (await extender.asked("/scheduler/filter", body("a")))["NodeNames"] == kept
