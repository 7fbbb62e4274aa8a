"""`leadsman plan WHAT`: plans for the whole cluster, made offline."""

import argparse
import contextlib
from importlib import import_module

from leadsman.cli.flags.options import Options

PLANS = {
    "fit": "count how many more pods fit, what limits them, and what to add or remove",
    "optimise": "choose places and backups of all pods with delay bounds together, with the least reserved capacity",
    "drain": "moves that empty nodes ahead of maintenance, or why a pod cannot go",
    "rebalance": "moves of pods to nodes that serve them better by more than a move costs",
    "apply": "hand a plan of moves over to the controller; by default only say what would be done",
    "status": "how far the plan of moves is that was handed over last",
    "pause": "no further move of the plan begins until it is resumed",
    "resume": "the plan that was paused goes on",
    "abort": "no further move of the plan begins any more",
}
"""Maps each plan's name to what it does. Each is the module leadsman.cli.plan_<name>, with `options` and `main` as a
command has."""

OF_STATUS = ("pause", "resume", "abort")
"""These are in the module of `status`, which all speak of the plan that was handed over."""


def options(add: Options) -> None:
    assert isinstance(add.parser, argparse.ArgumentParser)
    kinds = add.parser.add_subparsers(dest="plan", metavar="WHAT", required=True)
    for name, does in PLANS.items():
        command = kinds.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.", allow_abbrev=False)
        module = import_module(f"leadsman.cli.plan_{'status' if name in OF_STATUS else name}")
        module.options(add.for_subcommand(command))
        command.set_defaults(make_plan=module.main)


def main(args: argparse.Namespace) -> int:
    with contextlib.ExitStack() as args.closing:
        return int(args.make_plan(args))
