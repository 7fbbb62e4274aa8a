"""The files of kubernetes-edge-scheduler, and what is said of bad ones."""

import json
import os
from pathlib import Path

import pytest

from leadsman.sources.cluster.edge_files import BadEdgeFile, read_delays, read_edge_cluster

MIB = 2**20
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: web, delay_edge-1: "25"}, annotations: null}
    spec: {nodeSelector: null, containers: [{name: a, resources: {requests: {memory: 512Mi, cpu: 100m}}}]}
"""
NODES = [{"name": "edge-1", "allocatable_memory": "16Gi"}, {"name": "c", "allocatable_memory": "1Gi", "cloud": True}]


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_nodes_and_deployments_become_a_cluster_of_memory_alone(tmp_path: Path) -> None:
    nodes, pods = written(tmp_path / "n.json", json.dumps(NODES)), written(tmp_path / "p.yaml", DEPLOYMENT)
    cluster = read_edge_cluster(nodes, pods)
    assert cluster.nodes["edge-1"].allocatable.memory_bytes == 16384 * MIB
    assert cluster.nodes["c"].labels["kubernetes.io/role"] == "cloud"
    assert {pod.name for pod in cluster.unbound_pods} == {"web-0", "web-1"}
    for pod in cluster.unbound_pods:
        assert dict(pod.requests.items()) == {"memory": 512 * MIB, "pods": 1}
        assert (pod.workload, pod.labels["delay_edge-1"]) == ("deployment/web", "25")


def test_folders_and_single_nodes_say_the_same_as_one_file(tmp_path: Path) -> None:
    for number, node in enumerate(NODES):
        written(tmp_path / "nodes" / f"{number}.json", json.dumps(node))
    written(tmp_path / "pods" / "web.yaml", DEPLOYMENT + "---\n" + DEPLOYMENT.replace("name: web}", "name: db}", 1))
    cluster = read_edge_cluster(tmp_path / "nodes", tmp_path / "pods")
    assert set(cluster.nodes) == {"edge-1", "c"}
    assert len(cluster.pods) == 4


def test_a_bad_value_of_the_matrix_is_named_with_file_row_and_column(tmp_path: Path) -> None:
    matrix, metadata = written(tmp_path / "m.txt", "0 1\nx 0\n"), written(tmp_path / "m.json", '{"a": 0, "b": 1}')
    with pytest.raises(BadEdgeFile, match=r'm\.txt: matrix row 1 \(line 2\), column 0: got "x"'):
        read_delays(matrix, metadata)


@pytest.mark.parametrize(
    ("nodes", "pods", "reason"),
    [
        ('[{"name": "a"}]', DEPLOYMENT, r"n\.json: node 0: .*allocatable_memory"),
        ('[{"name": "a", "allocatable_memory": "16Gi"}, {"name": 3}]', DEPLOYMENT, r"n\.json: node 1: .*name"),
        ('{"name": "a", "allocatable_memory": "much"}', DEPLOYMENT, r"n\.json: node 0, allocatable_memory: .*much"),
        ('{"name": "a", "allocatable_memory": "1Gi", "cpu": 2}', DEPLOYMENT, r"n\.json: node 0: .*cpu"),
        ("[\n{]", DEPLOYMENT, r"n\.json: line 2, column 2: .*must be a node or a list"),
        (json.dumps([NODES[0], NODES[0]]), DEPLOYMENT, r'n\.json: node "edge-1" is there twice'),
        ("[]", "kind: Deployment", r"p\.yaml: document 0: .*metadata"),
        ("[]", DEPLOYMENT.replace("Deployment", "Service"), r'p\.yaml: document 0: got kind "Service"'),
        ("[]", DEPLOYMENT.replace("512Mi", "lots"), r"p\.yaml: document 0: .*lots"),
        ("[]", DEPLOYMENT.replace("replicas: 2", "replicas: -1"), r"p\.yaml: document 0: got -1 replicas"),
        ("[]", "a: [", r"p\.yaml: line"),
        ("[]", '"\\UFFFFFFFF"', r"p\.yaml: Python int too large"),
        ("[]", "&a [*a]", r"p\.yaml: line 1, column 5: got the alias"),
        ("[]", DEPLOYMENT + "---\n" + DEPLOYMENT, r"p\.yaml: Deployment of pod default/web-0 is there twice"),
    ],
)
def test_bad_files_are_named_with_the_place(tmp_path: Path, nodes: str, pods: str, reason: str) -> None:
    with pytest.raises(BadEdgeFile, match=reason):
        read_edge_cluster(written(tmp_path / "n.json", nodes), written(tmp_path / "p.yaml", pods))


def test_a_fault_in_what_a_pipe_brings_is_named_by_its_place(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b'{"name": "a",\n "allocatable_memory": }')
    os.close(write)
    with pytest.raises(BadEdgeFile, match="line 2"):
        read_edge_cluster(Path(f"/dev/fd/{read}"), tmp_path)
    os.close(read)
