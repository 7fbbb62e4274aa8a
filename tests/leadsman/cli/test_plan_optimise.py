"""`leadsman plan optimise`, as a user calls it, on the edge scheduler's files."""

import json
from pathlib import Path

import pytest

from leadsman.cli.main import main
from leadsman.published.documents import decode
from leadsman.published.moves import MovePlan, PlanOrigin
from leadsman.simulator import solver

OPTIMISE = ("plan", "optimise", "-s", "-b")


def test_the_edge_scheduler_s_flags_give_places_backups_and_reserves(
    edge_files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*OPTIMISE, *edge_files, "--greedy", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [pod["pod"] for pod in plan["pods"]] == ["default/db-0", "default/log-0", "default/web-0"]
    assert all(pod["backup"] not in ("", pod["node"]) for pod in plan["pods"])
    assert plan["ended"] == "nothing was searched"
    assert plan["gap"] is None


def test_a_search_says_what_it_proved_and_what_ended_it(
    edge_files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ortools", reason="needs leadsman[plan]")
    assert main([*OPTIMISE, *edge_files, "--work", "5", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["reserved"], plan["reserved_bound"], plan["resources"]) == (4 / 24, 4 / 24, ["memory"])
    assert (plan["gap"], plan["ended"]) == (0.0, "proven optimal")


def test_without_a_solver_the_plan_is_greedy_and_says_how_to_get_one(
    edge_files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver, "find_spec", lambda _: None)
    assert main([*OPTIMISE, *edge_files]) == 0
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
