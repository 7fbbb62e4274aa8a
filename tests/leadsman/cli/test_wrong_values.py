"""What commands answer to values that cannot be used, and to servers that cannot be reached or refuse them."""

import argparse
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from leadsman.cli.main import EXIT_BAD_SETTINGS, EXIT_FAILED, build_parser, main

PARSER = build_parser({})

NO_VALUE = "\N{SNOWMAN}"
"""No number, no file, no URL, no word that any flag knows."""

WANTED = ("want ", "no such file", "no such folder")


class Argument(NamedTuple):
    command: tuple[str, ...]
    name: str
    is_flag: bool

    def __str__(self) -> str:
        return " ".join((*self.command, self.name))


def arguments(
    parser: argparse.ArgumentParser, command: tuple[str, ...] = ()
) -> Iterator[tuple[Argument, argparse.Action]]:
    """Every flag and position of every command that takes a value."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from arguments(sub, (*command, name))
        elif action.nargs != 0 and action.help != argparse.SUPPRESS:
            flag = next((each for each in action.option_strings if each.startswith("--")), "")
            yield Argument(command, flag or str(action.metavar or action.dest), bool(flag)), action


def is_checked(action: argparse.Action) -> bool:
    """Whether its words or its parser rule some text out; names, paths to write and queries may be any."""
    if action.choices is not None:
        return True
    if action.type in (None, str, Path) or not callable(action.type):
        return False
    try:
        action.type(NO_VALUE)
    except argparse.ArgumentTypeError:
        return True
    except ValueError as error:
        raise AssertionError(f"{action.dest}: argparse does not show what is allowed: {error}") from error
    return False


CHECKED = [argument for argument, action in arguments(PARSER) if is_checked(action)]


@pytest.mark.parametrize("argument", CHECKED, ids=str)
def test_a_wrong_value_is_refused_by_flag_and_value_with_what_is_allowed(
    argument: Argument, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"{argument.name}={NO_VALUE}"] if argument.is_flag else [NO_VALUE]
    with pytest.raises(SystemExit) as ended:
        PARSER.parse_args([*argument.command, *given])
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == EXIT_BAD_SETTINGS
    assert f"leadsman {' '.join(argument.command)}: argument " in said
    assert argument.name in said
    assert f"'{NO_VALUE}': " in said
    assert any(each in said for each in WANTED), said


@pytest.mark.parametrize("command", [["plan", "drain", "edge-1"], ["plan", "optimise"], ["snapshot"]], ids=" ".join)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (tmp_path / "no-folder" / "plan.json", tmp_path):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--generate", "zones=1", "-o", str(file)], environ={})
        assert ended.value.code == EXIT_BAD_SETTINGS
        said = " ".join(capsys.readouterr().err.split())
        assert f"argument -o/--output: '{file}': want a file in a folder that exists and can be written" in said


ASKING = [
    ["nodes", "--extender"],
    ["state", "--extender"],
    ["rewards", "--extender"],
    ["delay", "edge-1", "edge-2", "--extender"],
    ["explain", "web-0", "--extender"],
    ["uninstall", "--kube-api"],
    ["plan", "status", "--kube-api"],
    ["plan", "pause", "--kube-api"],
]
"""Each with the flag of the server that it asks."""


@pytest.fixture
def closed() -> Iterator[str]:
    """The URL of a port that is taken, and on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_a_server_that_does_not_answer_is_named_with_the_reason(
    arguments: list[str], closed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, closed], environ={}) == EXIT_FAILED
    said = capsys.readouterr().err
    assert said.startswith("leadsman")
    assert closed in said
    assert len(said.splitlines()) == 1, "no traceback"
