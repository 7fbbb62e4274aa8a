"""`leadsman doctor` on real extenders behind a stand-in for kubectl, and what it reads of objects."""

import json
from pathlib import Path

import pytest
import yaml

from leadsman.cli import doctor
from leadsman.runtime.http_server import Health, create_ops_app, serve
from leadsman.runtime.scrape import create_registry, gauge
from tests.leadsman.cli.conftest import Called, extender_pod, started

BASE = Path(__file__).parents[4] / "daemonset/base/serviceaccounts.yaml"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def lease(node: str, renewed: str, written: str) -> dict:
    field = {"time": written, "fieldsV1": {"f:spec": {"f:renewTime": {}}}}
    other = {"time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:metadata": {}}}
    return {"metadata": {"name": node, "managedFields": [other, field]}, "spec": {"renewTime": renewed}}


def test_the_rights_that_are_asked_for_are_those_that_the_base_grants() -> None:
    granted = set()
    documents = [each for each in yaml.safe_load_all(BASE.read_text()) if each]
    roles = {each["metadata"]["name"]: each["rules"] for each in documents if each["kind"] == "ClusterRole"}
    for binding in (each for each in documents if each["kind"] == "ClusterRoleBinding"):
        for rule in roles[binding["roleRef"]["name"]]:
            account = binding["subjects"][0]["name"]
            granted |= {(account, verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}
    assert set(doctor.NEEDED_RIGHTS) <= granted


async def test_a_cluster_is_diagnosed(called: Called, kubectl, told: list[str]) -> None:
    objects = {
        "pods": [extender_pod("extender-a")],
        "nodes": [{"metadata": {"name": "node-00000"}, "status": READY}],
        "leases": [
            {"metadata": {"name": "new"}},
            lease("node-00000", "2026-11-22T10:01:30.500000Z", "2026-11-22T10:00:00Z"),
        ],
    }
    async with started() as ports:
        kubectl(objects, {"extender-a": ports}, refused=["events"])
        code, out, _ = await called("doctor", "-o", "json")
    findings = {(each["check"], each["status"]): each["text"] for each in json.loads(out)}
    assert code == 1
    assert findings["agents", "error"] == "no ready agent on 1 of 1 ready nodes: node-00000"
    assert findings["rights", "error"] == "leadsman-agent may list events: refused"
    assert findings["clocks", "error"] == "node-00000 is 90 s ahead of the API server"
    assert findings["state", "ok"] == "extender-a: all 3 nodes are fresh"
    assert "has not asked any replica" in findings["scheduler", "error"]
    assert told == ["asks the cluster and its pods through kubectl"]


@pytest.mark.parametrize(
    ("component", "port", "metric", "value", "finding"),
    [
        ("controller", "metrics", "leadsman_controller_leader", 1.0, ["ok", "pod-a leads"]),
        ("controller", "metrics", "leadsman_controller_leader", 0.0, ["error", "none of those that answer leads: "]),
        ("etcd", "member", "leadsman_etcd_member_differs", 1.0, ["error", "the data of pod-a differ"]),
    ],
)
async def test_controllers_and_members_of_etcd_say_by_their_metrics_how_they_are(
    called: Called, kubectl, component: str, port: str, metric: str, value: float, finding: list[str]
) -> None:
    pod = extender_pod("pod-a")
    pod["metadata"]["labels"]["app.kubernetes.io/component"] = component
    registry = create_registry(lambda: [gauge(metric, "What a pod says of itself.", value)])
    async with serve(create_ops_app(registry, lambda: Health(True), lambda: Health(True)), "127.0.0.1", 0) as at:
        kubectl({"pods": [pod]}, {"pod-a": {port: at}})
        _, out, _ = await called("doctor", "-o", "json")
    found = [[each["status"], each["text"]] for each in json.loads(out) if each["check"].startswith(component)]
    assert any(status == finding[0] and text.startswith(finding[1]) for status, text in found), found


async def test_without_kubectl_it_says_so(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    code, out, _ = await called("doctor", "-o", "json")
    assert code == 1
    (only,) = json.loads(out)
    assert "kubectl is not installed" in only["text"]
