"""`leadsman plan fit`, as a user calls it."""

import io
import json
import sys
from pathlib import Path

import pytest

from leadsman.cli import output
from leadsman.cli.main import main
from leadsman.planning.backups.reserve import TwoFailures
from leadsman.planning.capacity.report import FitReport, as_text
from tests.testbed.scripted_api_server import ApiServerThread

WEB = """
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    metadata: {labels: {delay_edge-1: "12"}}
    spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 2Gi}}}]}
"""


@pytest.fixture
def files(edge_files: list[str], tmp_path: Path) -> list[str]:
    (tmp_path / "p.yaml").write_text(WEB.replace("web", "running").replace("replicas: 2", "replicas: 0"))
    (tmp_path / "web.yaml").write_text(WEB)
    return ["plan", "fit", *edge_files, "-f", str(tmp_path / "web.yaml")]


def test_pods_with_bounds_fit_with_their_backups(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Two nodes keep the bound; each has room for 4 pods, and after the failure of one all are on the other."""
    assert main([*files, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["what"], answer["fits"], answer["at_most"]) == ("2 default/deployment/web", 2, 2)
    assert answer["binds"] == "room for backups when node edge-1 fails"
    assert answer["lossless"] == len(answer["failures"]) == 3
    assert answer["reasons"]["default/deployment/web"]["delay to edge-1 over 12 ms"] == 1
    assert main([*files, "--json", "--backup-scope", "none"]) == 0
    assert json.loads(capsys.readouterr().out)["fits"] == 4


def test_what_does_not_fit_exits_1_and_says_what_to_add(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*files, "--sets", "4"]) == 1
    text = capsys.readouterr().out
    assert "For 4, one of:" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("+")]
    assert rows == [["+1", "edge-1", "edge-2"]]


def test_nothing_is_added_where_it_is_not_proven_that_the_sets_do_not_fit() -> None:
    text = as_text(FitReport("a cluster", "1 web", 1, 0, 1, "room on nodes", {}, (), {}, TwoFailures((), 0, 0, 0)))
    assert "Whether 1 fit is not known: at least 0 and at most 1 do" in text
    assert "No number of copies" not in text


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_long_command_does_is_shown_on_a_terminal_and_not_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(output, "PROGRESS_SECONDS", 0.001)
    with output.progress("reads the cluster") as say:
        for what in ("reads the cluster", "counts what fits"):
            say(what)
            while terminal and f"0 s: {what}" not in stream.getvalue():
                pass
    assert bool(stream.getvalue()) is terminal
    assert not terminal or stream.getvalue().endswith("\r\x1b[K"), "the line is left empty"


# `leadsman snapshot`, as a user calls it.


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
