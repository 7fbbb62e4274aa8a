"""`leadsman simulate WHAT`: compare scheduling strategies on a simulated cluster."""

import argparse
from importlib import import_module

from leadsman.cli.flags.options import Options

SIMULATIONS = {
    "placement": "place the same pods by Leadsman, the edge scheduler's rule and default spreading, and compare",
    "rewards": "count failed pods under Leadsman, kubeRL's rule, Thompson sampling, plain spreading and oracles",
}
"""Name → what it shows. Each is the module leadsman.cli.simulate_<name>, with `options` and `main` as a command has."""


def options(add: Options) -> None:
    assert isinstance(add.parser, argparse.ArgumentParser)
    kinds = add.parser.add_subparsers(dest="simulation", metavar="WHAT", required=True)
    for name, shows in SIMULATIONS.items():
        command = kinds.add_parser(name, help=shows, description=f"{shows[0].upper()}{shows[1:]}.", allow_abbrev=False)
        module = import_module(f"leadsman.cli.simulate_{name}")
        module.options(add.for_subcommand(command))
        command.set_defaults(simulate=module.main)


def main(args: argparse.Namespace) -> int:
    return int(args.simulate(args))
