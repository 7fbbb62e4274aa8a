"""`leadsman plan drain | rebalance | apply | status | pause | resume | abort`, as a user calls them."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli.main import main
from leadsman.cluster.model import Cluster, ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.published.documents import decode
from leadsman.published.moves import (
    MOVES,
    HandedOverPlan,
    MovePlan,
    MoveProgress,
    MoverState,
    Outcome,
    PlanProgress,
    PlanRequest,
    RunState,
)
from leadsman.sources.cluster_snapshot import ClusterSnapshot, snapshot_chunks
from leadsman.state.snapshot import Snapshot
from leadsman.testbed.api_objects import ApiStatusError, parse_path
from tests.installed_package import install_picky
from tests.testbed.scripted_api_server import ApiServerThread

GIB = 2**30
OBJECT = "/api/v1/namespaces/leadsman/configmaps/leadsman-move-plan"

WEB = {
    "metadata": {
        "uid": "web-uid",
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "rs-web", "controller": True}],
    },
    "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]},
}

Run = Callable[..., int]


def cluster() -> Cluster:
    nodes = [ClusterNode(name, name, allocatable=Resources(8000, 8 * GIB, 50), ready=True) for name in ("a", "b")]
    web = ClusterPod(
        "web-uid",
        "shop",
        "web",
        "a",
        workload="deployment/web",
        owner_kind="ReplicaSet",
        owner_uid="rs-web",
        requests=Resources(100, GIB, 1),
        ready=True,
    )
    bare = ClusterPod("bare-uid", "shop", "bare", "a", requests=Resources(100, GIB, 1), ready=True)
    return cluster_of(nodes, [web, bare])


def write_snapshot(file: Path, taken_at: float) -> Path:
    inputs = DecisionInputs(Snapshot(), Policy(), 0.0)
    file.write_bytes(b"".join(snapshot_chunks(ClusterSnapshot(cluster(), inputs, taken_at, {}))))
    return file


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return write_snapshot(tmp_path / "cluster.json", time.time())


@pytest.fixture
def plan_file(tmp_path: Path, snapshot: Path) -> Path:
    assert main(["plan", "drain", "a", "--snapshot", str(snapshot), "-o", str(tmp_path / "plan.json")]) == 1
    return tmp_path / "plan.json"


@pytest.fixture
def api() -> Iterator[ApiServerThread]:
    with ApiServerThread() as one:
        one.put("/api/v1/namespaces/shop/pods/web", WEB)
        yield one


@pytest.fixture
def run(api: ApiServerThread) -> Run:
    return lambda *words: main(["plan", *map(str, words), "--kube-api", api.url])


def handed_over(api: ApiServerThread) -> HandedOverPlan | None:
    try:
        found: dict[str, Any] = api.call(lambda server: server.objects.get(parse_path(OBJECT)))
    except ApiStatusError:
        return None
    return decode(found["data"]["plan.json"], HandedOverPlan)


def report(api: ApiServerThread, plan: MovePlan, state: RunState, outcome: Outcome, note: str = "") -> None:
    progress = PlanProgress(plan.id, state, note, (MoveProgress(outcome, note),))
    text = MOVES.encode(MoverState(progress=progress)).decode()
    api.put("/api/v1/namespaces/leadsman/configmaps/leadsman-replacement", {"data": {"state.json": text}})


def test_drain_prints_the_moves_what_stays_and_what_to_do_first(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "drain", "a", "--snapshot", str(snapshot)]) == 1
    shown = capsys.readouterr().out
    assert "shop/web" in shown
    assert "node a is to be empty" in shown
    assert "shop/bare  a     it has no controller that would make it again" in shown
    assert "kubectl cordon a" in shown
    assert main(["plan", "drain", "a", "--snapshot", str(snapshot), "--json"]) == 1
    plan, said = capsys.readouterr()
    assert decode(plan.encode(), MovePlan).left_out
    assert "kubectl cordon a" in said


def test_a_maintenance_that_is_over_is_refused(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["plan", "drain", "a", "--snapshot", str(snapshot), "--at", "2020-01-01T00:00+00:00"])
    assert exited.value.code not in (0, None)
    assert "--at 2020-01-01T00:00:00Z is in the past: no move would begin" in capsys.readouterr().err


def test_no_pod_is_drained_to_a_node_that_a_plugin_of_the_policy_refuses(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(install_picky(tmp_path, monkeypatch))
    assert main(["plan", "drain", "a", "--snapshot", str(snapshot), "--policy", str(policy)]) == 1
    shown = capsys.readouterr().out
    assert "nothing is moved" in shown
    assert "1 it does not like the node" in shown


def test_a_score_of_another_package_counts_for_rebalancing(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_picky(tmp_path, monkeypatch)
    policy = tmp_path / "policy.yaml"
    policy.write_text("plugins: {scores: [{name: fond, weight: 1.0, deadline_ms: 100}]}")
    assert main(["plan", "rebalance", "--snapshot", str(snapshot), "--policy", str(policy)]) == 0
    assert "node b scores higher than node a (fond +10.0 points)" in capsys.readouterr().out


def test_a_whole_config_map_is_no_record_of_earlier_moves(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config_map.json"
    file.write_text(json.dumps({"kind": "ConfigMap", "data": {MOVES.key: MOVES.encode(MoverState()).decode()}}))
    with pytest.raises(SystemExit):
        main(["plan", "rebalance", "--snapshot", str(snapshot), "--moved-before", str(file)])
    assert "want what `kubectl" in capsys.readouterr().err


def test_apply_hands_the_plan_over_once_it_is_confirmed(run: Run, plan_file: Path, api: ApiServerThread) -> None:
    assert run("apply", plan_file, "--confirm") == 0
    given = handed_over(api)
    assert given is not None
    assert given.plan == decode(plan_file.read_bytes(), MovePlan)
    assert given.request is PlanRequest.RUN


def test_a_plan_of_a_snapshot_that_is_too_old_is_refused(
    run: Run, tmp_path: Path, api: ApiServerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    old = write_snapshot(tmp_path / "old.json", time.time() - 700)
    main(["plan", "drain", "a", "--snapshot", str(old), "-o", str(tmp_path / "plan.json")])
    assert run("apply", tmp_path / "plan.json", "--confirm") == 1
    assert " s old, and 600 s are allowed" in capsys.readouterr().out
    assert handed_over(api) is None


@pytest.mark.parametrize(
    ("namespace", "why"),
    [
        ("shop", "quota small leaves 0 of pods while it ends, and its new pod needs 1"),
        (
            "leadsman-placeholders",
            "in namespace leadsman-placeholders, where its room is held, quota small limits pods",
        ),
    ],
)
def test_a_plan_that_a_quota_would_refuse_now_is_refused_by_its_name(
    run: Run, plan_file: Path, api: ApiServerThread, capsys: pytest.CaptureFixture[str], namespace: str, why: str
) -> None:
    full = {"spec": {"hard": {"pods": "3"}}, "status": {"hard": {"pods": "3"}, "used": {"pods": "3"}}}
    api.put(f"/api/v1/namespaces/{namespace}/resourcequotas/small", full)
    assert run("apply", plan_file, "--confirm") == 1
    assert f"refused: pod shop/web cannot be moved now: {why}" in capsys.readouterr().out
    assert handed_over(api) is None


def test_a_second_plan_is_refused_while_the_first_is_carried_out(
    run: Run, plan_file: Path, api: ApiServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("apply", plan_file, "--confirm")
    other = json.loads(plan_file.read_text())
    other["taken_at"] += 1
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert run("apply", tmp_path / "other.json", "--confirm") == 1
    assert "another plan is being carried out" in capsys.readouterr().out
    report(api, decode(plan_file.read_bytes(), MovePlan), RunState.DONE, Outcome.MOVED)
    assert run("apply", tmp_path / "other.json", "--confirm") == 0


def test_pause_resume_and_abort_are_written_for_the_controller(run: Run, plan_file: Path, api: ApiServerThread) -> None:
    run("apply", plan_file, "--confirm")
    for command, request in (("pause", PlanRequest.PAUSE), ("resume", PlanRequest.RUN), ("abort", PlanRequest.ABORT)):
        assert run(command) == 0
        given = handed_over(api)
        assert given is not None
        assert given.request is request


def test_status_shows_each_move(
    run: Run, plan_file: Path, api: ApiServerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("status") == 1
    run("apply", plan_file, "--confirm")
    assert run("status") == 0
    assert "no controller has taken it up" in capsys.readouterr().out
    plan = decode(plan_file.read_bytes(), MovePlan)
    report(api, plan, RunState.ABORTED, Outcome.FAILED, "its owner's new pod has no node after 180 s")
    assert run("status") == 1
    shown = capsys.readouterr().out
    assert f"plan {plan.id} is aborted" in shown
    assert "failed: its owner's new pod has no node after 180 s" in shown
