"""What a mistyped command, choice or flag is answered."""

import re

import pytest

from leadsman.cli.main import COMMANDS, main


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


def test_an_error_is_said_alone_with_where_to_read_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "drain", "n1", "--xyz"])
    said = capsys.readouterr().err
    assert said == "leadsman plan drain: unrecognized arguments: --xyz (see leadsman plan drain --help)\n"


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"]])
def test_the_first_list_is_what_people_call(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    shown = capsys.readouterr().out
    listed = re.findall(r"^  ([a-z]\S*) ", shown, re.MULTILINE)
    assert len(listed) == len(set(listed)) <= 16
    assert {"explain", "plan", "demo"} <= set(listed) <= set(COMMANDS)
    assert {"agent", "extender", "controller", "etcd-member"} <= set(COMMANDS) - set(listed)
    assert max(map(len, shown.splitlines())) <= 100
