"""`leadsman simulate WHAT`: policies compared on a cluster that does not exist."""

import argparse
from importlib import import_module

from leadsman.cli.options import Options

SIMULATIONS = {
    "rewards": "failed pods under ours, kubeRL's rule, Thompson sampling, plain spreading and an oracle",
}
"""Name → what it shows. Each is leadsman.simulate_<name>, with `options` and `main` as a command has."""


def options(add: Options) -> None:
    assert isinstance(add.parser, argparse.ArgumentParser)
    kinds = add.parser.add_subparsers(dest="simulation", metavar="WHAT", required=True)
    for name, shows in SIMULATIONS.items():
        command = kinds.add_parser(name, help=shows, description=f"{shows.capitalize()}.")
        module = import_module(f"leadsman.cli.simulate_{name}")
        module.options(add.for_subcommand(command))
        command.set_defaults(simulate=module.main)


def main(args: argparse.Namespace) -> int:
    return int(args.simulate(args))
