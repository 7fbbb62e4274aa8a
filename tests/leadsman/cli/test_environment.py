"""Which environment variables the commands read, and what each means."""

import re
from collections import defaultdict

import pytest

from leadsman.cli.main import COMMANDS, build_parser, main

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
