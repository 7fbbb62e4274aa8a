"""`leadsman completion SHELL`: prints the script that completes commands and flags in a shell."""

import argparse
import sys

from leadsman.cli.flags.options import Options
from leadsman.cli.reference import parser_tree, shells


def options(add: Options) -> None:
    add.parser.add_argument("shell", choices=tuple(shells.SHELLS), metavar="SHELL", help=", ".join(shells.SHELLS))


def main(args: argparse.Namespace) -> int:
    sys.stdout.write(shells.SHELLS[args.shell](_commands()))
    return 0


def kubectl_complete() -> int:
    """`kubectl_complete-leadsman WORDS…`, for kubectl: a candidate a line, and cobra's directive 4, no files."""
    sys.stdout.writelines(f"{each}\n" for each in (*shells.candidates(_commands(), sys.argv[1:]), ":4"))
    return 0


def _commands() -> parser_tree.Command:
    from leadsman.cli.main import build_parser

    return parser_tree.read(build_parser({}))
