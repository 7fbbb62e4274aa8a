"""Manifests become templates, and one that cannot be used is refused by its place."""

from pathlib import Path

import pytest

from leadsman.cli.pod_templates import BadPodTemplate, read_templates
from leadsman.cluster.model import cluster_of
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources

DEPLOYMENT = """
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web, delay_edge-1: "20"}}
    spec:
      priorityClassName: high
      containers: [{name: a, resources: {requests: {cpu: 250m, memory: 1Gi}}}]
"""
POD = "kind: Pod\nmetadata: {name: alone}\nspec: {containers: [{name: a}]}\n"


def read(tmp_path: Path, text: str) -> list:
    file = tmp_path / "pods.yaml"
    file.write_text(text)
    return read_templates([file], cluster_of((), [ClusterPod("u", "a", "n", priority=7, priority_class="high")]))


def test_a_deployment_gives_its_pods_and_their_number(tmp_path: Path) -> None:
    [web] = read(tmp_path, DEPLOYMENT)
    assert (web.name, web.per_set, web.pod.namespace) == ("shop/deployment/web", 3, "shop")
    assert web.pod.requests == Resources(250, 1 << 30, 1)
    assert web.pod.labels == {"app": "web", "delay_edge-1": "20"}
    assert (web.pod.workload, web.pod.owner_kind, web.pod.priority) == ("deployment/web", "ReplicaSet", 7)


def test_documents_and_lists_are_one_set(tmp_path: Path) -> None:
    job = "{kind: Job, metadata: {name: j}, spec: {parallelism: 2, template: {spec: {containers: [{name: a}]}}}}"
    listed = f"kind: List\nitems: [{job}]\n"
    found = read(tmp_path, f"{DEPLOYMENT}---\n{POD}---\n{listed}")
    assert [(each.name, each.per_set) for each in found] == [
        ("shop/deployment/web", 3),
        ("default/pod/alone", 1),
        ("default/job/j", 2),
    ]
    assert not found[1].pod.owner_uid


def test_what_has_a_limit_and_no_request_needs_its_limit(tmp_path: Path) -> None:
    [web] = read(tmp_path, DEPLOYMENT.replace("requests:", "limits:"))
    assert web.pod.requests == Resources(250, 1 << 30, 1)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kind: DaemonSet\nmetadata: {name: a}\n", 'document 0: got kind "DaemonSet"; must be a Pod'),
        ("kind: Pod\nmetadata: {}\nspec: {}\n", "document 0: metadata.name is missing"),
        ("kind: Deployment\nmetadata: {name: a}\nspec: {}\n", "document 0: spec.template.spec is missing"),
        (DEPLOYMENT.replace("3", "0"), "document 0: spec.replicas: got 0; must be 1 to"),
        (DEPLOYMENT.replace("250m", "a lot"), "document 0: .*'a lot' is not a quantity"),
        (POD + "---\n" + POD, "default/pod/alone is there twice"),
        ("a: [", "pods.yaml: "),
        ("", "no manifest"),
    ],
)
def test_a_bad_manifest_is_refused_by_its_place(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(BadPodTemplate, match=error):
        read(tmp_path, text)
