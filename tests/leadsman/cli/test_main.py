"""`leadsman` as a whole: how it reads its flags and how it ends."""

import argparse
import os
import re
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from leadsman.cli.flags.options import CommandFailed
from leadsman.cli.main import COMMANDS, EXIT_BAD_SETTINGS, EXIT_FAILED, build_parser, main


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


# What a mistyped command, choice or flag is answered.


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


# Which environment variables the commands read, and what each means.

PROCESSES = ("agent", "controller", "extender")
OF_THE_POD = {"POD_NAMESPACE", "POD_UID"}
"""Facts that the downward API gives; each command says what it uses them for."""


def meanings(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Variable → the help text of the flag that reads it."""
    with pytest.raises(SystemExit):
        build_parser({}, only=command).parse_args([command, "--help"])
    text = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    flags = re.findall(r"--[a-z-]+(?: [A-Z][\w:,=\[\]]*)? ((?:(?! --[a-z]).)*?) \[(\$[A-Z_, $]+)\]", text)
    return {variable: meaning for meaning, read in flags for variable in re.findall(r"\$(\w+)", read)}


def test_a_variable_means_the_same_to_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for command in COMMANDS:
        for variable, meaning in meanings(command, capsys).items():
            found[variable].add(meaning)
    assert {"LEADSMAN_ETCD", "LEADSMAN_POLICY", "LEADSMAN_EXTENDER", "LEADSMAN_AGENT_LISTEN"} <= set(found)
    assert {variable: texts for variable, texts in found.items() if len(texts) > 1 and variable not in OF_THE_POD} == {}


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - set(PROCESSES)))
def test_the_operator_s_commands_read_at_most_where_the_extender_is(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(meanings(command, capsys)) in ({"LEADSMAN_EXTENDER"}, set())


@pytest.mark.parametrize("command", PROCESSES)
def test_a_listen_address_for_all_processes_is_refused_naming_the_right_variable(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEADSMAN_LISTEN", "0.0.0.0:80")
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 2
    assert f"set LEADSMAN_{command.upper()}_LISTEN" in capsys.readouterr().err


# What commands answer to values that cannot be used, and to servers that cannot be reached or refuse them.

PARSER = build_parser({})

NO_VALUE = "\N{SNOWMAN}"
"""No number, no file, no URL, no word that any flag knows."""


class Argument(NamedTuple):
    command: tuple[str, ...]
    name: str

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
            yield Argument(command, flag or str(action.metavar or action.dest)), action


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
    given = [f"{argument.name}={NO_VALUE}"] if argument.name.startswith("--") else [NO_VALUE]
    with pytest.raises(SystemExit) as ended:
        PARSER.parse_args([*argument.command, *given])
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == EXIT_BAD_SETTINGS
    assert f"leadsman {' '.join(argument.command)}: argument " in said
    assert argument.name in said
    assert f"'{NO_VALUE}': " in said
    assert any(each in said for each in ("want ", "no such file", "no such folder")), said


def test_a_number_that_no_date_timer_or_scheduler_can_hold_is_refused(tmp_path: Path) -> None:
    for flag in (["certs", "create", "--days"], ["configure-scheduler", str(tmp_path), "--weight"], ["page", "--port"]):
        with pytest.raises(SystemExit) as ended:
            PARSER.parse_args([*flag, "1000001"])
        assert ended.value.code == EXIT_BAD_SETTINGS
    for argument in (["nodes", "--interval-seconds", "1e300"], ["page", "--port", "65536"]):
        with pytest.raises(SystemExit):
            PARSER.parse_args(argument)


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


@pytest.mark.parametrize("command", ["plan drain z0-r0-n0", "plan optimise --greedy -o /dev/full", "snapshot"])
def test_a_full_disk_is_said_without_a_traceback(command: str) -> None:
    given = [sys.executable, "-m", "leadsman.cli.main", *command.split(), "--generate", "nodes=2,pods=2"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(given, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == EXIT_FAILED
    assert ended.stderr.splitlines()[-1].endswith("No space left on device")
    assert "Traceback" not in ended.stderr


def test_a_closed_output_is_no_fault() -> None:
    plan = "-m leadsman.cli.main plan drain z0-r0-n0 --generate nodes=2,pods=2"
    given = ["sh", "-c", f"exec {sys.executable} {plan} >&-"]
    ended = subprocess.run(given, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)


def test_what_a_snapshot_is_written_to_stays_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        assert main(["snapshot", "--generate", "nodes=2,pods=2", "-o", str(pipe)]) == 0
        assert pipe.is_fifo()
        assert reader.read(1) == b"{"


ASKING = [
    *([page, "--extender"] for page in ("nodes", "state", "rewards")),
    ["delay", "edge-1", "edge-2", "--extender"],
    ["explain", "web-0", "--extender"],
    ["uninstall", "--kube-api"],
    *(["plan", verb, "--kube-api"] for verb in ("status", "pause")),
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
