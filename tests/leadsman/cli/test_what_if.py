"""`leadsman explain -f`: a pod that does not exist, on a snapshot and by a real extender."""

import json
from pathlib import Path

import pytest

from leadsman.cli.main import main
from leadsman.cli.pod_templates import BadPodTemplate, read_templates
from leadsman.cluster.model import ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from tests.installed_package import install_picky
from tests.leadsman.cli.conftest import Called

POD = 'apiVersion: v1\nkind: Pod\nmetadata: {name: cart, labels: {delay_edge-1: "12"}}\nspec: {containers: []}\n'
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
spec: {template: {metadata: {labels: {delay_edge-1: "12"}}, spec: {containers: []}}}
"""


@pytest.fixture
def snapshot(edge_files: list[str], tmp_path: Path) -> str:
    file = str(tmp_path / "snapshot.json")
    assert main(["snapshot", *edge_files, "-o", file]) == 0
    return file


def test_each_document_of_a_file_is_decided(snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.yaml").write_text(f"# two pods\n---\n{POD}---\n{DEPLOYMENT}---\n# the end\n")
    asked = ["explain", "-f", str(tmp_path / "pods.yaml"), "--snapshot", snapshot]
    assert main([*asked, "-o", "json"]) == 0
    found = [each["explanation"] for each in json.loads(capsys.readouterr().out)]
    assert [each["pod"] for each in found] == ["default/cart", "shop/cart"]
    for each in found:
        nodes = {node["node"]: node["verdict"] for node in each["nodes"]}
        assert nodes == {"edge-1": "kept", "edge-2": "kept", "edge-3": "refused"}
    assert main(asked) == 0
    assert capsys.readouterr().out.count("decided ") == 2
    assert main([*asked, "-n", "carts", "-o", "json"]) == 0
    assert [each["explanation"]["pod"] for each in json.loads(capsys.readouterr().out)] == ["carts/cart", "shop/cart"]


def test_what_kube_scheduler_refuses_is_said_too(
    snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asks = POD.replace("containers: []", "containers: [{name: c, resources: {requests: {memory: 9Gi}}}]")
    (tmp_path / "pod.yaml").write_text(asks)
    assert main(["explain", "-f", str(tmp_path / "pod.yaml"), "--snapshot", snapshot]) == 0
    page = capsys.readouterr().out
    assert "none of 3 nodes passes: 3 too little memory is free" in page
    assert "what would help" not in page, "no other bound would"


def test_a_plugin_of_the_snapshot_s_policy_is_asked(
    edge_files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(install_picky(tmp_path, monkeypatch))
    for nodes in (tmp_path / "m.json", tmp_path / "n.json"):
        nodes.write_text(nodes.read_text().replace("edge-2", "b"))
    file = str(tmp_path / "snapshot.json")
    assert main(["snapshot", *edge_files, "--policy", str(tmp_path / "policy.yaml"), "-o", file]) == 0
    (tmp_path / "pod.yaml").write_text("kind: Pod\nmetadata: {name: cart}\nspec: {containers: []}\n")
    assert main(["explain", "-f", str(tmp_path / "pod.yaml"), "--snapshot", file, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["explanation"]["nodes"]
    assert {each["node"]: each["verdict"] for each in found} == {"edge-1": "kept", "b": "refused", "edge-3": "kept"}


@pytest.mark.parametrize(
    ("labels", "helps"),
    [
        ("delay_edge-1: '0.5', delay_edg-2: '5'", "no such node or workload edg-2; did you mean edge-2?"),
        ("delay_edge-1: '0.5', delay_edge-2: '0.5'", "a bound of 10 ms to edge-1 lets edge-2 pass"),
    ],
)
def test_it_ends_with_what_would_help(
    labels: str, helps: str, snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.yaml").write_text(f"kind: Pod\nmetadata: {{name: p, labels: {{{labels}}}}}\n")
    assert main(["explain", "-f", str(tmp_path / "pod.yaml"), "--snapshot", snapshot]) == 0
    assert f"what would help: {helps}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Service\nmetadata: {name: a}\n", "pod.yaml: kind is 'Service'; allowed: YAML of one Pod, Deployment"),
        ("kind: Pod\n# \xff", "pod.yaml: 'utf-8' codec can't decode byte 0xff in position 12"),
        ("a: [", "pod.yaml: $: line 1, column 5"),
        ("kind: Pod\nmetadata: {name: a, labels: {app: 3}}\n", "labels"),
        ("#" * (257 << 10), "larger than 256 KiB"),
    ],
)
def test_what_is_no_pod_is_refused_naming_file_and_field(
    text: str, message: str, snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.yaml").write_text(text, encoding="latin-1")
    with pytest.raises(SystemExit) as ended:
        main(["explain", "-f", str(tmp_path / "pod.yaml"), "--snapshot", snapshot])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


async def test_an_extender_decides_on_the_cluster_as_it_is_and_keeps_nothing(
    extender: str, called: Called, tmp_path: Path
) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text('kind: Pod\nmetadata: {name: cart, labels: {delay_node-00000: "12"}}\n')
    code, text, _ = await called("explain", "-f", str(pod), "--extender", extender)
    data = (await called("explain", "-f", str(pod), "-o", "json", "--extender", extender))[1]
    kept = (await called("explain", "-A", "--extender", extender))[1]
    assert (code, "over 12 ms" in text) == (0, True)
    verdicts = {each["node"]: each["verdict"] for each in json.loads(data)["explanation"]["nodes"]}
    assert verdicts == {"node-00000": "kept", "node-00001": "kept", "node-00002": "refused"}
    assert kept == "no decision is kept on a pod at all\n"


# Manifests become templates, and one that cannot be used is refused by its place.

TEMPLATED = """
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
ALONE = "kind: Pod\nmetadata: {name: alone}\nspec: {containers: [{name: a}]}\n"


def read(tmp_path: Path, text: str) -> list:
    file = tmp_path / "pods.yaml"
    file.write_text(text)
    return read_templates([file], cluster_of((), [ClusterPod("u", "a", "n", priority=7, priority_class="high")]))


def test_a_deployment_gives_its_pods_and_their_number(tmp_path: Path) -> None:
    [web] = read(tmp_path, TEMPLATED)
    assert (web.name, web.per_set, web.pod.namespace) == ("shop/deployment/web", 3, "shop")
    assert web.pod.requests == Resources(250, 1 << 30, 1)
    assert web.pod.labels == {"app": "web", "delay_edge-1": "20"}
    assert (web.pod.workload, web.pod.owner_kind, web.pod.priority) == ("deployment/web", "ReplicaSet", 7)


def test_documents_and_lists_are_one_set(tmp_path: Path) -> None:
    job = "{kind: Job, metadata: {name: j}, spec: {parallelism: 2, template: {spec: {containers: [{name: a}]}}}}"
    listed = f"kind: List\nitems: [{job}]\n"
    found = read(tmp_path, f"{TEMPLATED}---\n{ALONE}---\n{listed}")
    assert [(each.name, each.per_set) for each in found] == [
        ("shop/deployment/web", 3),
        ("default/pod/alone", 1),
        ("default/job/j", 2),
    ]
    assert not found[1].pod.owner_uid


def test_claims_that_a_stateful_set_makes_are_said_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read(tmp_path, TEMPLATED.replace("Deployment", "StatefulSet") + "  volumeClaimTemplates: [{}]\n")
    said = "document 0: spec.volumeClaimTemplates: whether a node can have the volumes of shop/statefulset/web is not"
    assert said in capsys.readouterr().err


def test_what_has_a_limit_and_no_request_needs_its_limit(tmp_path: Path) -> None:
    [web] = read(tmp_path, TEMPLATED.replace("requests:", "limits:"))
    assert web.pod.requests == Resources(250, 1 << 30, 1)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kind: DaemonSet\nmetadata: {name: a}\n", 'document 0: got kind "DaemonSet"; must be a Pod'),
        ("kind: Pod\nmetadata: {}\nspec: {}\n", "document 0: metadata.name is missing"),
        ("kind: Deployment\nmetadata: {name: a}\nspec: {}\n", "document 0: spec.template.spec is missing"),
        (TEMPLATED.replace("3", "0"), "document 0: spec.replicas: got 0; must be 1 to"),
        (TEMPLATED.replace("250m", "a lot"), "document 0: .*'a lot' is not a quantity"),
        (ALONE + "---\n" + ALONE, "default/pod/alone is there twice"),
        ("a: [", "pods.yaml: "),
        ("", "no manifest"),
    ],
)
def test_a_bad_manifest_is_refused_by_its_place(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(BadPodTemplate, match=error):
        read(tmp_path, text)
