"""`leadsman` as a whole: how it reads its flags and how it ends."""

import argparse
import sys
from types import ModuleType

import pytest

from leadsman.cli.flags.options import CommandFailed
from leadsman.cli.main import COMMANDS, EXIT_FAILED, main


def test_no_command_sends_control_characters_of_strangers_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once for all commands: what a server says may hold anything that a pod's owner wrote."""

    def write_all(_: argparse.Namespace) -> int:
        sys.stdout.write("red \x1b[31m, bell \x07\tone line\n")
        sys.stderr.write("back \x9b2J\n")
        raise CommandFailed("refused: \x1b]0;title\x07")

    toy = ModuleType("leadsman.cli.toy")
    toy.options, toy.main = (lambda _: None), write_all  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "leadsman.cli.toy", toy)
    monkeypatch.setitem(COMMANDS, "toy", "play")
    assert main(["toy"]) == EXIT_FAILED
    shown = capsys.readouterr()
    assert shown.out == "red \\x1b[31m, bell \\x07\tone line\n"
    assert shown.err == "back \\x9b2J\nleadsman toy: refused: \\x1b]0;title\\x07\n"
