"""`leadsman plan optimise`, as a user calls it, on the edge scheduler's files."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from leadsman.cli.main import main
from leadsman.published.documents import decode
from leadsman.published.moves import MovePlan, PlanOrigin
from leadsman.simulator import solver

DEPLOYMENT = """
kind: Deployment
metadata: {{name: {name}}}
spec:
  template:
    metadata: {{labels: {{delay_edge-1: "{ms}"}}}}
    spec: {{containers: [{{name: a, resources: {{requests: {{memory: 2Gi}}}}}}]}}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    (tmp_path / "m.txt").write_text("0 10 15\n10 0 12\n15 12 0\n")
    (tmp_path / "m.json").write_text('{"edge-1": 0, "edge-2": 1, "edge-3": 2}')
    nodes = [{"name": f"edge-{number}", "allocatable_memory": "8Gi"} for number in (1, 2, 3)]
    (tmp_path / "n.json").write_text(json.dumps(nodes))
    (tmp_path / "p.yaml").write_text("---".join(DEPLOYMENT.format(name=name, ms=25) for name in ("web", "db", "log")))
    names = {"-d": "m.txt", "-m": "m.json", "-n": "n.json", "-p": "p.yaml"}
    given: list[object] = ["plan", "optimise", "-s", "-b"]
    for flag, name in names.items():
        given += [flag, tmp_path / name]
    return given


def strings(arguments: Sequence[object]) -> list[str]:
    return [str(each) for each in arguments]


def test_the_edge_scheduler_s_flags_give_places_backups_and_reserves(
    files: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(strings([*files, "--greedy", "--json"])) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [pod["pod"] for pod in plan["pods"]] == ["default/db-0", "default/log-0", "default/web-0"]
    assert all(pod["backup"] not in ("", pod["node"]) for pod in plan["pods"])
    assert plan["ended"] == "nothing was searched"
    assert plan["gap"] is None


def test_a_search_says_what_it_proved_and_what_ended_it(
    files: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ortools", reason="needs leadsman[plan]")
    assert main(strings([*files, "--work", "5", "--json"])) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["reserved"], plan["reserved_bound"], plan["resources"]) == (4 / 24, 4 / 24, ["memory"])
    assert (plan["gap"], plan["ended"]) == (0.0, "proven optimal")


def test_without_a_solver_the_plan_is_greedy_and_says_how_to_get_one(
    files: list[object], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver, "find_spec", lambda _: None)
    assert main(strings(files)) == 0
    out, err = capsys.readouterr()
    assert "pip install leadsman[plan]" in err
    assert "nothing is proven" in out


def test_the_moves_that_lead_there_are_written_for_apply(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    spec = "zones=1,racks=2,nodes=4,bounded=1,seed=3"
    main(["plan", "optimise", "--generate", spec, "--work", "2", "-o", str(file)])
    plan = decode(file.read_bytes(), MovePlan)
    assert plan.origin is PlanOrigin.OPTIMISE
    assert plan.moves
