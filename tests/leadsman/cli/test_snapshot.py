"""`leadsman snapshot`, as a user calls it."""

import json
from pathlib import Path

import pytest

from leadsman.cli.main import main
from tests.testbed.scripted_api_server import ApiServerThread

DEPLOYMENT = """
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    metadata: {labels: {delay_edge-1: "25"}}
    spec: {containers: [{name: a, resources: {requests: {memory: 2Gi}}}]}
"""


@pytest.fixture
def edge_files(tmp_path: Path) -> list[str]:
    (tmp_path / "m.txt").write_text("0 10 15\n10 0 12\n15 12 0\n")
    (tmp_path / "m.json").write_text('{"edge-1": 0, "edge-2": 2, "edge-3": 1}')
    nodes = [{"name": f"edge-{number}", "allocatable_memory": "8Gi"} for number in (1, 2, 3)]
    (tmp_path / "n.json").write_text(json.dumps(nodes))
    (tmp_path / "p.yaml").write_text(DEPLOYMENT)
    files = {"-d": "m.txt", "-m": "m.json", "-n": "n.json", "-p": "p.yaml"}
    return [part for flag, name in files.items() for part in (flag, str(tmp_path / name))]


def plan_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["plan", "optimise", "--greedy", "--json", *arguments]) == 0
    return capsys.readouterr().out


def test_a_plan_of_the_snapshot_is_that_of_the_files_it_was_made_from(
    edge_files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "cluster.json")
    assert main(["snapshot", *edge_files, "-o", file]) == 0
    assert plan_of(["--snapshot", file], capsys) == plan_of(edge_files, capsys)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-n", "n.json", "--snapshot", "m.json"], "--snapshot and --nodes and --pods exclude each other"),
        (["--generate", "nodes=3", "--snapshot", "m.json"], "--snapshot and --generate exclude each other"),
        (["--kube-api", "http://127.0.0.1:1", "--cluster", "m.json"], "--kube-api exclude each other"),
        (["--generate", "nodes=3", "-d", "m.txt"], "--delay_matrix and --metadata have no effect with --generate"),
        (["-d", "m.txt", "-m", "m.json"], "--nodes and --pods are both needed, or --cluster, or --snapshot"),
    ],
)
@pytest.mark.usefixtures("edge_files")
def test_flags_that_do_not_fit_together_are_refused(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["snapshot", *flags])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_live_cluster_is_written_and_without_etcd_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.json"
    with ApiServerThread() as api:
        status = {"allocatable": {"memory": "8Gi", "pods": "110"}}
        api.put("/api/v1/nodes/edge-1", {"metadata": {"name": "edge-1"}, "status": status})
        assert main(["snapshot", "--kube-api", api.url, "-o", str(file)]) == 0
        assert main(["plan", "optimise", "--greedy", "--kube-api", api.url]) == 0
    said = "not in the snapshot: the state in etcd: no etcd was named (--etcd)"
    assert said in capsys.readouterr().err
    assert [node["name"] for node in json.loads(file.read_text())["nodes"]] == ["edge-1"]
    assert plan_of(["--snapshot", str(file)], capsys)
