"""Makes the reference of the command line from each command's own help."""

import argparse
import os
from collections.abc import Iterator

from leadsman.cli.main import build_parser


def commands_page() -> str:
    os.environ["COLUMNS"] = "110"  # argparse's width, as no terminal says one
    return "\n".join(
        ["# Commands and flags", "", "`kubectl leadsman` takes the same.", "", *_sections(build_parser({}))]
    )


def _sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Of this command and of all below it."""
    yield from (f"## {parser.prog}", "", "```text", parser.format_help().rstrip("\n"), "```", "")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _sections(each)
