"""`leadsman doctor` on real extenders behind a stand-in for kubectl, and what it reads of objects."""

import json
from pathlib import Path

import pytest
import yaml

from leadsman.cli import doctor
from leadsman.cli.doctor_checks import ClockReading
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.leader_election import LeaderElector
from leadsman.runtime.http_server import Health, create_ops_app, serve
from leadsman.runtime.scrape import create_registry, gauge
from tests.leadsman.cli.conftest import Called, Started, extender_pod

BASE = Path(__file__).parents[4] / "daemonset/base/serviceaccounts.yaml"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def lease(node: str, renewed: str, written: str) -> dict:
    field = {"time": written, "fieldsV1": {"f:spec": {"f:renewTime": {}}}}
    other = {"time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:metadata": {}}}
    return {"metadata": {"name": node, "managedFields": [other, field]}, "spec": {"renewTime": renewed}}


def test_a_node_s_clock_is_compared_with_the_api_server_s_at_the_same_write() -> None:
    leases = [lease("edge-1", "2026-11-22T10:01:30.500000Z", "2026-11-22T10:00:00Z"), {"metadata": {"name": "new"}}]
    assert doctor.node_clocks(leases) == [ClockReading("edge-1", 90.5)]


def test_the_rights_that_are_asked_for_are_those_that_the_base_grants() -> None:
    granted = set()
    documents = [each for each in yaml.safe_load_all(BASE.read_text()) if each]
    roles = {each["metadata"]["name"]: each["rules"] for each in documents if each["kind"] == "ClusterRole"}
    for binding in (each for each in documents if each["kind"] == "ClusterRoleBinding"):
        for rule in roles[binding["roleRef"]["name"]]:
            account = binding["subjects"][0]["name"]
            granted |= {(account, verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}
    assert set(doctor.NEEDED_RIGHTS) <= granted


async def test_a_cluster_is_diagnosed(started: Started, called: Called, kubectl) -> None:
    objects = {
        "pods": [extender_pod("extender-a")],
        "nodes": [{"metadata": {"name": "node-00000"}, "status": READY}],
        "leases": [lease("node-00000", "2026-11-22T10:00:00.500000Z", "2026-11-22T10:00:00Z")],
    }
    async with started() as ports:
        kubectl(objects, {"extender-a": ports}, refused=["events"])
        code, out, _ = await called("doctor", "-o", "json")
    findings = {(each["check"], each["status"]): each["text"] for each in json.loads(out)}
    assert code == 1
    assert findings["agents", "error"] == "no ready agent on 1 of 1 ready nodes: node-00000"
    assert findings["rights", "error"] == "leadsman-agent may list events: refused"
    assert findings["clocks", "ok"] == "1 nodes within 5 s of the API server"
    assert findings["state", "ok"] == "extender-a: all 3 nodes are fresh"
    assert "has not asked any replica" in findings["scheduler", "error"]


def controller_pod(name: str) -> dict:
    pod = extender_pod(name)
    pod["metadata"]["labels"]["app.kubernetes.io/component"] = "controller"
    return pod


@pytest.mark.parametrize(
    ("leads_until", "finding"),
    [
        (0.0, ["error", "none of the 1 that answer leads: nothing is planned or done"]),
        (10.0, ["ok", "controller-a leads"]),
    ],
)
async def test_a_controller_says_by_its_metrics_whether_it_leads(
    called: Called, kubectl, leads_until: float, finding: list[str]
) -> None:
    elector = LeaderElector(ApiClient(ApiAccess("http://127.0.0.1:1")), "leadsman", "l", "a", clock=lambda: 5.0)
    elector._leads_until = leads_until
    registry = create_registry(lambda: [gauge("leadsman_controller_leader", "Leads.", float(elector.is_leader))])
    async with serve(create_ops_app(registry, lambda: Health(True), lambda: Health(True)), "127.0.0.1", 0) as port:
        kubectl({"pods": [controller_pod("controller-a")]}, {"controller-a": {"metrics": port}})
        _, out, _ = await called("doctor", "-o", "json")
    found = [[each["status"], each["text"]] for each in json.loads(out) if each["check"] == "controller"]
    assert found == [finding]


async def test_without_kubectl_it_says_so(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    code, out, _ = await called("doctor", "-o", "json")
    assert code == 1
    (only,) = json.loads(out)
    assert "kubectl is not installed" in only["text"]
