"""`leadsman version`: this program's version, and the Python that runs it."""

import argparse
import platform

from leadsman.cli import output
from leadsman.cli.flags.options import Options
from leadsman.runtime.version import VERSION


def options(add: Options) -> None:
    output.options(add, json="the same as an object", watch=False)


def main(args: argparse.Namespace) -> int:
    versions = {"leadsman": VERSION, "python": platform.python_version()}
    if args.output in ("json", "yaml"):
        print(output.document(versions, args.output), end="")
    else:
        print(*(f"{name} {each}" for name, each in versions.items()), sep="\n")
    return 0
