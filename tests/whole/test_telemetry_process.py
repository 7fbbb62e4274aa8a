"""A telemetry policy on what a real agent measures, in an extender as a process."""

from typing import Any

from tests.leadsman_process import LeadsmanProcess
from tests.testbed.scripted_api_server import ApiServerThread
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

POLICY = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/p"
POD = {"metadata": {"name": "pod", "namespace": "default", "labels": {"telemetry-policy": "p"}}}
BOTH = ["edge-1", "no-agent"]


def filtered(extender: LeadsmanProcess) -> Any:
    return extender.post("scheduler/filter", {"Pod": POD, "NodeNames": BOTH})


def dontschedule(operator: str) -> Any:
    rule = {"metricname": "memory_available_ratio", "operator": operator, "target": 0}
    return {"spec": {"strategies": {"dontschedule": {"rules": [rule]}}}}


def policies(extender: LeadsmanProcess, state: str) -> float:
    return extender.metric(f'leadsman_telemetry_policies{{state="{state}"}}')


def test_a_policy_comes_changes_and_goes_on_an_agent_s_own_metric(
    agent: Start, start: Start, api: ApiServerThread
) -> None:
    """Some memory is always available, so "more than 0" is violated and "less than 0" never."""
    api.put(POLICY, dontschedule("GreaterThan"))
    agent("edge-1", 1)
    extender = start("extender", "--telemetry", "agents", "--kube-api", api.url)
    until(lambda: extender.fresh() and filtered(extender)["NodeNames"] == ["no-agent"], "edge-1 refused")
    reason = "telemetry policy default/p is violated: memory_available_ratio GreaterThan 0"
    assert filtered(extender)["FailedAndUnresolvableNodes"] == {"edge-1": reason}
    api.put(POLICY, dontschedule("LessThan"))
    until(lambda: filtered(extender)["NodeNames"] == BOTH, "the changed policy in use")
    api.put(POLICY, dontschedule("Above"))
    until(lambda: policies(extender, "refused") == 1, "the bad version refused")
    assert policies(extender, "used") == 1, "the good one goes on"
    api.delete(POLICY)
    until(lambda: policies(extender, "used") == policies(extender, "refused") == 0, "no policy left")
    assert extender.stop() == 0
    assert "TASPolicy default/p (generation" in extender.log
    assert "Traceback" not in extender.log
