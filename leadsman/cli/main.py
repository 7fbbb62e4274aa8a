"""`leadsman COMMAND`. Settings come from flags and environment here, once, and are passed down."""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version

from leadsman.cli.options import Options
from leadsman.runtime import import_trim

COMMANDS = {
    "agent": "measure on this node and report",
    "extender": "answer kube-scheduler's filter and prioritize calls",
    "controller": "label nodes as telemetry policies say, and wake pods that were refused",
    "certs": "a CA of our own, and certificates for the extender and kube-scheduler",
    "configure-scheduler": "make a kube-scheduler ask the extender, and take it back",
    "evaluate": "say what telemetry policies do, without a cluster",
    "explain": "say why a pod went where it went",
    "rewards": "how each node has treated each type of pod",
    "simulate": "compare policies on a cluster that does not exist",
    "demo": "a small cluster on this machine: agents, etcd, extender, one placement explained",
}


def build_parser(environ: Mapping[str, str] = os.environ, only: str = "") -> argparse.ArgumentParser:
    """The command line. only: build the options of this command alone, so that an agent imports no extender."""
    top = argparse.ArgumentParser(prog="leadsman", description="Measures what kube-scheduler cannot see.")
    top.add_argument("--version", action="version", version=f"leadsman {version('leadsman')}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if only in ("", name):
            module = import_module(f"leadsman.cli.{name.replace('-', '_')}")
            module.options(Options(command, environ))
            command.set_defaults(run=module.main)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # numpy's threads spin beside the requests, and a fit gains nothing
    given = sys.argv[1:] if arguments is None else list(arguments)
    named = next((word for word in given if word in COMMANDS), "")
    if named == "agent":
        import_trim.import_aiohttp()
    command_line = build_parser(only=named)
    args = command_line.parse_args(given)
    logging.basicConfig(
        level=getattr(args, "log_level", "info").upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        return int(args.run(args))
    except ValueError as error:
        command_line.exit(2, f"leadsman {args.command}: {error}\n")
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
