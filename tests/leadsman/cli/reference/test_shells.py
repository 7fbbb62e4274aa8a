"""Completion: bash runs its script, and the other scripts name the same."""

import shlex
import subprocess
from pathlib import Path

import pytest

from leadsman.cli.main import COMMANDS, build_parser
from leadsman.cli.reference import parser_tree, shells
from leadsman.cli.reference.parser_tree import Command


@pytest.fixture(scope="module")
def top() -> Command:
    return parser_tree.read(build_parser({}))


@pytest.fixture(scope="module")
def script(top: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("completion") / "leadsman.bash"
    file.write_text(shells.bash(top))
    return file


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers in place of the last word."""
    typed = " ".join(map(shlex.quote, ("leadsman", *words)))
    text = f'. {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _leadsman; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["expl"], ["explain"]),
        (["plan", "dr"], ["drain"]),
        (["nodes", "--wat"], ["--watch"]),
        (["nodes", "-o", ""], ["table", "wide", "json", "yaml"]),
        (["nodes", "edge-1", "--output", "y"], ["yaml"]),
        (["nodes", "--extender", "x"], []),
        (["demo", "re"], ["rewards"]),
        (["nothing", "expl"], ["explain"]),
    ],
)
def test_bash_and_kubectl_offer_what_may_follow(
    script: Path, top: Command, words: list[str], expected: list[str]
) -> None:
    assert completed(script, *words) == expected
    assert list(shells.candidates(top, words)) == expected


def test_bash_offers_paths_where_a_flag_takes_one(script: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").touch()
    assert completed(script, "explain", "--snapshot", f"{tmp_path}/clu") == [f"{tmp_path}/cluster.json"]


def test_every_command_is_offered(script: Path) -> None:
    assert set(COMMANDS) <= set(completed(script, ""))


def test_fish_and_zsh_name_every_command_and_flag(top: Command) -> None:
    fish, zsh = shells.fish(top), shells.zsh(top)
    for command in list(top.walk())[1:]:
        assert f" -a {command.name} -d " in fish
        assert f"'{command.words}'" in zsh
        for flag in command.flags:
            assert all(f"-l {name[2:]} " in fish for name in flag.names if name.startswith("--"))
    assert zsh.startswith("#compdef leadsman\n")


def test_a_quote_in_a_help_text_ends_no_string_of_fish(top: Command) -> None:
    for line in shells.fish(top).splitlines():
        unescaped = line.replace("\\\\", "").replace("\\'", "")
        assert unescaped.count("'") % 2 == 0, line
