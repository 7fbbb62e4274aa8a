"""The reference and the man pages say everything that the parser knows."""

import pytest

from leadsman.cli.main import COMMANDS, build_parser
from leadsman.cli.reference import pages, parser_tree
from leadsman.cli.reference.generated import generated
from leadsman.cli.reference.parser_tree import Command, Flag, Group


@pytest.fixture(scope="module")
def top() -> Command:
    return parser_tree.read(build_parser({}))


def test_every_command_and_flag_is_in_the_reference(top: Command) -> None:
    sections = pages.markdown(top).split("\n## ")
    by_command = {section.partition("\n")[0]: section for section in sections[1:]}
    commands = list(top.walk())[1:]
    assert set(by_command) == {each.words for each in commands}
    missing = [
        (each.words, name)
        for each in commands
        for flag in each.flags
        for name in flag.names
        if name not in by_command[each.words]
    ]
    assert missing == []


def test_the_tree_has_every_command_with_its_subcommands(top: Command) -> None:
    assert [each.name for each in top.subcommands] == list(COMMANDS)
    assert "leadsman plan drain" in {each.words for each in top.walk()}


def test_no_line_of_a_man_page_is_a_request_by_accident() -> None:
    flag = Flag(["--a"], "FILE", ".hidden 'quoted' back\\slash")
    page = pages.man_pages(Command("leadsman", "x", "usage", [], [Group("options", [flag])], []), "1")["leadsman.1"]
    assert "\\&.hidden 'quoted' back\\eslash" in page.splitlines()


@pytest.mark.parametrize("name", ["leadsman.1", "leadsman-plan.1"])
def test_a_man_page_has_the_sections_that_man_reads(name: str) -> None:
    lines = generated()[f"man/{name}"].splitlines()
    assert lines[0].startswith(f".TH {name.removesuffix('.1').upper()} 1 ")
    assert [line for line in lines if line.startswith(".SH")][:3] == [".SH NAME", ".SH SYNOPSIS", ".SH COMMANDS"]
