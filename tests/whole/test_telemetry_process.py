"""A telemetry policy on what a real agent measures, in an extender as a process."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import blocked_until as until

POLICY = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/p"
BODY = {"Pod": {"metadata": {"name": "pod", "namespace": "default", "labels": {"telemetry-policy": "p"}}}}


BOTH = ["edge-1", "no-agent"]


def filtered(extender: Any) -> Any:
    return extender.post("scheduler/filter", {**BODY, "NodeNames": BOTH})


def dontschedule(operator: str) -> Any:
    rule = {"metricname": "memory_available_ratio", "operator": operator, "target": 0}
    return {"spec": {"strategies": {"dontschedule": {"rules": [rule]}}}}


async def test_a_policy_comes_changes_and_goes_on_an_agent_s_own_metric(
    agent: Callable[..., Any], start: Callable[..., Any]
) -> None:
    """Some memory is always available, so "more than 0" is violated and "less than 0" never."""
    async with FakeApiServer() as api:
        api.put(POLICY, dontschedule("GreaterThan"))
        agent("edge-1", 1)
        extender = start("extender", "--telemetry", "agents", "--kube-api", api.url)

        async def kept(nodes: list[str], what: str) -> None:
            await asyncio.to_thread(until, lambda: extender.fresh() and filtered(extender)["NodeNames"] == nodes, what)

        await kept(["no-agent"], "edge-1 refused")
        answer = await asyncio.to_thread(filtered, extender)
        reason = "telemetry policy default/p is violated: memory_available_ratio GreaterThan 0"
        assert answer["FailedAndUnresolvableNodes"] == {"edge-1": reason}
        api.put(POLICY, dontschedule("LessThan"))
        await kept(BOTH, "the changed policy in use")
        api.put(POLICY, dontschedule("Above"))
        await asyncio.to_thread(until, lambda: used(extender) == (1, 1), "the bad version refused, the good one in use")
        api.delete(POLICY)
        await asyncio.to_thread(until, lambda: used(extender) == (0, 0), "no policy left")
        assert extender.stop() == 0
    assert "TASPolicy default/p (generation" in extender.log
    assert "Traceback" not in extender.log


def used(extender: Any) -> tuple[float, float]:
    """Policies in use, and refused."""
    lines = dict(line.rsplit(" ", 1) for line in extender.get("/metrics")[1].splitlines() if not line.startswith("#"))
    used, refused = (
        lines.get(f'leadsman_telemetry_policies{{state="{state}"}}', "-1") for state in ("used", "refused")
    )
    return float(used), float(refused)
