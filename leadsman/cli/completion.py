"""`leadsman completion SHELL`: prints the script by which a shell completes commands, flags and their values.

At each press of TAB, argcomplete's script runs `leadsman` (kubectl runs `kubectl_complete-leadsman`), which then
answers here instead of running a command.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from typing import Any, TextIO

import argcomplete
from argcomplete.completers import ChoicesCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import OneOf

SHELLS = ("bash", "zsh", "fish")


def options(add: Options) -> None:
    add.parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def main(args: argparse.Namespace) -> int:
    sys.stdout.write(shellcode(["leadsman"], shell=args.shell))
    return 0


def kubectl_complete() -> int:
    """Answers kubectl's `kubectl_complete-leadsman WORDS…`: a candidate a line, and cobra's directive 4, no files."""
    *before, typed = sys.argv[1:] or [""]
    line = " ".join(["leadsman", *map(shlex.quote, before), typed])
    os.environ |= {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    answer(sys.stdout, append_space=False, exit_method=lambda _: None)
    print("\n:4")
    return 0


def answer(
    to: TextIO | None = None, append_space: bool | None = None, exit_method: Callable[[int], object] = os._exit
) -> None:
    """Writes what may replace the word that is being typed. to: None: where argcomplete's script reads it."""
    from leadsman.cli.main import build_parser, named_command

    parser = build_parser({}, named_command(os.environ["COMP_LINE"].split()))
    _say_what_values_are(parser)
    argcomplete.autocomplete(
        parser,
        append_space=append_space,
        default_completer=ChoicesCompleter({}),
        exit_method=exit_method,
        output_stream=to,
    )


def _say_what_values_are(parser: argparse.ArgumentParser) -> None:
    action: Any
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _say_what_values_are(each)
        elif isinstance(action.type, OneOf):
            action.completer = ChoicesCompleter(dict.fromkeys(action.type.allowed, ""))
        elif action.metavar in ("FILE", "DIR"):
            action.completer = FilesCompleter()
