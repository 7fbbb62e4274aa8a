"""`leadsman simulate rewards`, as a user calls it."""

import json

import pytest

from leadsman.cli.main import main
from leadsman.simulator.rewards.strategies import STRATEGIES

QUICK = ["--seeds", "2", "--first-seed", "7", "--placements", "60", "--settle", "1", "--window", "10",
         "--join-settle", "1", "--workers", "1"]  # fmt: skip
NUMBERS = {
    "failures_per_1000",
    "failures_per_1000_after_move",
    "effective_nodes_after_move",
    "repaired_share_of_fair",
    "joined_share_of_fair",
    "standard_errors",
}


def test_json_has_five_numbers_a_policy_and_what_they_were_made_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "rewards", *QUICK, "--nodes", "10", "--bad", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["policies"].keys() == STRATEGIES.keys()
    assert all(set(each) == NUMBERS for each in found["policies"].values())
    assert (found["first_seed"], found["seeds"], found["settings"]["nodes"], found["settings"]["bad"]) == (7, 2, 10, 2)


def test_people_get_a_table_and_a_file_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "rewards", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert (out.splitlines()[0], err) == (
        "2 seeds from 7; 20 nodes, 4 bad (nodes); 1 pod types, 0 bad everywhere; 60 placements a phase",
        "",
    )


def test_settings_that_do_not_fit_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "rewards", "--nodes", "4", "--bad", "3"])
    assert ended.value.code == 2
    assert "bad 3: want 1 to half of nodes (4)" in capsys.readouterr().err
