"""`leadsman plan WHAT`: plans for the whole cluster, made offline."""

import argparse
from importlib import import_module

from leadsman.cli.options import Options

PLANS = {
    "optimise": "choose places and backups of all pods with delay bounds together, with the least reserved capacity",
}
"""Name → what it does. Each is the module leadsman.cli.plan_<name>, with `options` and `main` as a command has."""


def options(add: Options) -> None:
    assert isinstance(add.parser, argparse.ArgumentParser)
    kinds = add.parser.add_subparsers(dest="plan", metavar="WHAT", required=True)
    for name, does in PLANS.items():
        command = kinds.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.", allow_abbrev=False)
        module = import_module(f"leadsman.cli.plan_{name}")
        module.options(add.for_subcommand(command))
        command.set_defaults(make_plan=module.main)


def main(args: argparse.Namespace) -> int:
    return int(args.make_plan(args))
