"""`leadsman plan forecast`, as a user calls it."""

import json
from pathlib import Path

import pytest

from leadsman.cli.main import main


@pytest.fixture
def usage(tmp_path: Path) -> str:
    rows = [f"{hour * 3600},shop/deployment/web,{100 + hour % 24 * 10}m,1Gi" for hour in range(5 * 24)]
    (tmp_path / "usage.csv").write_text("\n".join(["time,workload,cpu,memory", *rows]))
    return str(tmp_path / "usage.csv")


def test_requests_and_errors_stand_side_by_side(usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "forecast", "--history", usage, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert 300 <= answer["requests"]["shop/deployment/web"]["cpu"] <= 350
    errors = {(each["resource"], each["forecast"]): each for each in answer["errors"]}
    assert errors["cpu", "same hour yesterday"]["hourly_error"] == 0.0
    assert errors["cpu", "decaying histogram"]["samples"] == 48


def test_a_short_history_says_that_nothing_was_judged(usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "forecast", "--history", usage, "--held-out-days", "9"]) == 0
    assert "held out:" in capsys.readouterr().out
    short = Path(usage)
    short.write_text("\n".join(short.read_text().splitlines()[:10]))
    assert main(["plan", "forecast", "--history", usage]) == 0
    assert "too short to hold days out" in capsys.readouterr().out


def test_without_a_history_there_is_no_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "forecast"])
    assert "--history or --usage-prometheus is needed" in capsys.readouterr().err
