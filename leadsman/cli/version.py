"""`leadsman version`: this program's version, and the Python that runs it."""

import argparse
import platform
from importlib.metadata import version

from leadsman.cli import output
from leadsman.cli.options import Options


def options(add: Options) -> None:
    output.options(add, json="the same as an object", watch=False)


def main(args: argparse.Namespace) -> int:
    versions = {"leadsman": version("leadsman"), "python": platform.python_version()}
    if args.output in ("json", "yaml"):
        print(output.document(versions, args.output), end="")
    else:
        print(*(f"{name} {each}" for name, each in versions.items()), sep="\n")
    return 0
