"""What a mistyped command, choice or flag is answered."""

import pytest

from leadsman.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "suggested"),
    [
        (["explian"], "explain"),
        (["plan", "drian"], "drain"),
        (["demo", "reward"], "rewards"),
        (["nodes", "--wtach"], "--watch"),
        (["nodes", "-o", "yml"], "yaml"),
        (["agent", "--log-level", "warn"], "warning"),
    ],
)
def test_the_nearest_one_is_suggested(arguments: list[str], suggested: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert f"; did you mean {suggested}?" in capsys.readouterr().err


def test_nothing_is_suggested_where_nothing_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["xyz"])
    assert "did you mean" not in capsys.readouterr().err


def test_the_usage_of_a_bad_flag_is_that_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["version", "--short"])
    assert capsys.readouterr().err.startswith("usage: leadsman version ")
