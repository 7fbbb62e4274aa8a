"""Which cluster the operator's commands mean where no flag names one: kubectl's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from leadsman.cli.main import EXIT_FAILED, main
from leadsman.sources import live_snapshot
from tests.leadsman.cli.conftest import kubeconfig
from tests.testbed.scripted_api_server import ApiServerThread

COMMANDS = [["plan", "status"], ["plan", "pause"], ["plan", "drain", "edge-1"], ["uninstall"], ["snapshot"]]


@pytest.mark.parametrize(
    ("command", "place"), [*((command, "variable") for command in COMMANDS), (COMMANDS[0], "home")], ids=str
)
def test_a_command_asks_the_cluster_of_kubectl_s_kubeconfig(
    command: list[str], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live_snapshot, "FAILING_SECONDS", 0.1)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    file = tmp_path / ".kube/config" if place == "home" else tmp_path / "elsewhere"
    file.parent.mkdir(exist_ok=True)
    file.write_text(kubeconfig("http://127.0.0.1:1"))
    if place == "variable":
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{file}")
    assert main(command) == EXIT_FAILED
    assert "127.0.0.1:1" in capsys.readouterr().err, "that server is asked, and does not answer"


def test_a_process_of_a_pod_reads_no_kubeconfig_that_it_was_not_given(tmp_path: Path) -> None:
    environ = {**os.environ, "KUBECONFIG": str(tmp_path / "config")}
    command = [sys.executable, "-m", "leadsman.cli.main", "controller", "--etcd", "http://127.0.0.1:1"]
    with ApiServerThread() as api:
        (tmp_path / "config").write_text(kubeconfig(api.url))
        done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
        assert api.call(lambda server: server.requests) == []
    assert done.returncode == 2
    assert "not running in a pod" in done.stderr


def test_a_file_may_be_what_another_command_prints(tmp_path: Path) -> None:
    """As `--cluster <(kubectl get nodes,pods -A -o json)`."""
    files = {
        "matrix": "0 1\n1 0\n",
        "metadata": '{"a": 0, "b": 1}',
        "cluster": json.dumps({"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "a"}}]}),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    flags = "-d <(cat matrix) -m <(cat metadata) --cluster <(cat cluster)"
    command = f"{sys.executable} -m leadsman.cli.main snapshot {flags}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert [each["name"] for each in json.loads(done.stdout)["nodes"]] == ["a"]
