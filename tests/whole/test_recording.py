"""A real extender records against a real etcd whose state changes, and what it answered is made again byte for byte."""

import asyncio
import http.client
import json
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from extender.replay.judge import answer_again, response_bytes
from leadsman.cli.main import main
from leadsman.sources.recording.reader import Recording
from leadsman.state.metric_names import CPU_PRESSURE
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Latency, PeerLatency, Reward
from leadsman.testbed.etcd import Etcd, die_with_parent
from tests.leadsman_process import LeadsmanProcess
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, write_records

NODES = [f"node-{number}" for number in range(30)]
PODS = 1_000
PODS_A_REPORT = 25
SECRET = "hunter2-must-not-reach-the-disk"


class Reports:
    """Reports of agents, written as they write them: some nodes at a time, each with other delays."""

    def __init__(self, etcd: Etcd, rng: random.Random) -> None:
        self._etcd, self._rng, self._seq = etcd, rng, 0

    def write(self, nodes: Sequence[str]) -> None:
        asyncio.run(write_records(self._etcd, {node: self._report(node) for node in nodes}))

    def _report(self, node: str) -> Sequence[AnyRecord | Reward]:
        rng, self._seq = self._rng, self._seq + 1
        peers = {peer: self._window() for peer in rng.sample(NODES, 8) if peer != node}
        reward = Reward(1.0, healthy=rng.uniform(1, 9), failed=rng.random())
        return Latency(peers), Hardware({CPU_PRESSURE: rng.random()}), Heartbeat(1, self._seq, 5.0), reward

    def _window(self) -> PeerLatency:
        ms = self._rng.uniform(0.1, 60)
        return PeerLatency(10, 10, p50_ms=ms, p95_ms=2 * ms, min_ms=ms / 2)


def schedule(extender: LeadsmanProcess, reports: Reports, pods: int, rng: random.Random) -> list[bytes]:
    """Asks as kube-scheduler does, and returns the answers. The state changes meanwhile."""
    connection, answers = http.client.HTTPConnection(urlsplit(extender.url).netloc, timeout=10), list[bytes]()
    for number in range(pods):
        if number % PODS_A_REPORT == 0:
            reports.write(rng.sample(NODES, 6))
        pod = pod_with_secrets(f"pod-{number}", rng)
        filtered = ask(connection, "filter", pod, rng.sample(NODES, 20))
        answers.append(filtered)
        kept = json.loads(filtered)["NodeNames"]
        answers.append(ask(connection, "prioritize", pod, kept))
    connection.close()
    return answers


def ask(connection: http.client.HTTPConnection, verb: str, pod: object, nodes: Sequence[str]) -> bytes:
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes})
    connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 200, answer
    return answer


def pod_with_secrets(name: str, rng: random.Random) -> object:
    """As kube-scheduler sends a pod: with everything."""
    labels = {"app": "web", "team": SECRET}
    if rng.random() < 0.7:
        labels[f"delay_{rng.choice(NODES)}"] = rng.choice(["5", "20", "50"])
    container = {
        "name": "c",
        "image": "registry.example.com/app",
        "command": ["/bin/app", f"--password={SECRET}"],
        "args": [SECRET],
        "env": [{"name": "PASSWORD", "value": SECRET}],
    }
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "labels": labels,
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": SECRET,
            "gas-note": SECRET,
            "leadsman.dev/reward-path": SECRET,
        },
    }
    return {"metadata": metadata, "spec": {"priority": 0, "containers": [container]}}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / "recording"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_two_thousand_answers_are_made_again_byte_for_byte(
    start: Start, etcd: Etcd, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = record(start, etcd, recording, PODS)
    read = list(Recording(recording).requests())
    assert len(read) == len(answers) == 2 * PODS
    for each, answer in zip(read, answers, strict=True):
        assert response_bytes(each.request.answer) == answer
        assert each.request.fault or response_bytes(answer_again(each.request)) == answer
    assert sum(bool(each.request.fault) for each in read) < 0.01 * len(read), "on a busy machine some are too late"
    assert len({id(each.request.inputs.snapshot) for each in read}) > PODS / PODS_A_REPORT / 2, "the state changed"
    assert main(["replay", str(recording)]) == 0
    assert "2,000 requests" in capsys.readouterr().out


def record(start: Start, etcd: Etcd, folder: Path, pods: int) -> list[bytes]:
    rng = random.Random(1)
    reports = Reports(etcd, rng)
    reports.write(NODES)
    extender = start("extender", "--record-dir", str(folder)).ready()
    reports.write(NODES)
    until(lambda: extender.metric('leadsman_state_nodes{freshness="fresh"}') == len(NODES), "all fresh")
    answers = schedule(extender, reports, pods, rng)
    assert extender.metric("leadsman_recording_dropped_requests_total") == 0
    assert extender.stop() == 0
    return answers


def test_nothing_of_a_pod_reaches_the_disk_that_decisions_do_not_read(
    start: Start, etcd: Etcd, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Uncompressed, so that the bytes can be searched: zlib stores what it is given, a valid stream of the same bytes.
    site = recording.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import zlib\nreal = zlib.compress\nzlib.compress = lambda data, level=-1, *more: real(data, 0, *more)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    record(start, etcd, recording, 20)
    written = b"".join(path.read_bytes() for path in recording.iterdir())
    assert b"uid-pod-19" in written
    assert b"delay_node-" in written
    for unread in (SECRET, "gas-note", "reward-path", "PASSWORD", "registry.example.com", "last-applied", "team"):
        assert unread.encode() not in written, unread


def test_another_policy_is_judged_beside_the_live_extender_until_ctrl_c(
    start: Start, etcd: Etcd, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its report is that of a replay of the whole recording, and it leaves no trace in the extender."""
    other, out = tmp_path / "other.yaml", tmp_path / "report.json"
    other.write_text("scores: {nearest: {weight: 0}, pressure: {weight: 50}}\n")
    follow = [sys.executable, "-m", "leadsman.cli.main", "replay", str(recording), "--follow", "--json"]
    with out.open("w") as report, (tmp_path / "progress").open("w") as progress:
        following = subprocess.Popen(
            [*follow, "--policy", str(other)], stdout=report, stderr=progress, preexec_fn=die_with_parent
        )
    record(start, etcd, recording, 40)
    record(start, etcd, recording, 20)
    until(lambda: "120 requests judged" in (tmp_path / "progress").read_text(), "all judged")
    following.send_signal(signal.SIGINT)
    assert following.wait(120) == 1  # it gives way to all other processes
    followed = json.loads(out.read_text())
    assert followed["results"]["other_node"]["prioritize"] == len(followed["changes"]) > 0
    assert main(["replay", str(recording), "--policy", str(other), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == followed
    whys = [change["judgement"]["why"] for change in followed["changes"]]
    assert all(why.startswith(("nearest: ", "pressure: ", "rewards: ")) for why in whys)
    assert "kube-scheduler adds scores of its own" in followed["notes"][0]
    assert main(["replay", str(recording), "--explain", "shop/pod-7"]) == 0
    assert "shop/pod-7" in capsys.readouterr().out
