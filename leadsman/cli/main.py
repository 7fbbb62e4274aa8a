"""`leadsman COMMAND`. Settings come from flags and environment here, once, and are passed down."""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import NoReturn

from leadsman.cli.options import Options
from leadsman.runtime import import_trim
from leadsman.runtime.redaction import RedactingFormatter, hide_credentials

COMMANDS = {
    "agent": "measure on this node and report",
    "extender": "answer kube-scheduler's filter and prioritize calls",
    "controller": "label nodes as telemetry policies say, and requeue pods that the extender refused",
    "etcd-member": "find out how a member of etcd begins, and write its configuration file",
    "etcd-issuer": "give each of our processes its own user and password of etcd",
    "certs": "create the CA and the certificates that extender and kube-scheduler use",
    "configure-scheduler": "add the extender to a kube-scheduler's configuration, or remove it",
    "uninstall": "list what Leadsman left in a cluster, and delete it",
    "evaluate": "show what telemetry policies do, without a cluster",
    "explain": "show why a pod was placed where it is",
    "rewards": "show each node's failure record by pod type",
    "snapshot": "write the cluster, as planners and decisions see it, to a file",
    "plan": "plan for the whole cluster offline, and hand a plan of moves over to the controller",
    "plugins": "list the installed plugins, or check one",
    "policy": "check a policy file, and say what its rules read",
    "replay": "decide recorded requests again, by another policy, and show what changes",
    "simulate": "compare scheduling strategies on a simulated cluster",
    "demo": "run a small cluster on this machine and explain one placement",
}

EXIT_BAD_SETTINGS = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""As a shell reports a program that SIGPIPE ended."""


class _Parser(argparse.ArgumentParser):
    """Its errors repeat what was given, which may be a URL with credentials."""

    def error(self, message: str) -> NoReturn:
        super().error(hide_credentials(message))


def build_parser(environ: Mapping[str, str] = os.environ, only: str | None = None) -> argparse.ArgumentParser:
    """The command line. only: build the options of this command alone, of none where it is "", so that an agent imports
    no extender, and its image needs none.
    """
    top = _Parser(prog="leadsman", description="Measures what kube-scheduler cannot see.", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"leadsman {version('leadsman')}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        if only in (None, name):
            module = _module(name)
            module.options(Options(command, environ))
            command.set_defaults(run=module.main)
    return top


def _module(command: str) -> ModuleType:
    """ValueError where its packages are not installed: the agent's image leaves out what an agent never imports."""
    try:
        return import_module(f"leadsman.cli.{command.replace('-', '_')}")
    except ModuleNotFoundError as error:
        raise ValueError(
            f"this installation has only the agent (no module {error.name}): use the image leadsman or pip install it"
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that is named first. Exit code."""
    # numpy's threads spin beside the requests, and a fit gains nothing from them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given = sys.argv[1:] if arguments is None else list(arguments)
    named = next((word for word in given if word in COMMANDS), "")
    if named == "agent":
        import_trim.import_aiohttp()
    try:
        args = build_parser(only=named).parse_args(given)
        handler = logging.StreamHandler()
        handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=getattr(args, "log_level", "info").upper(), handlers=[handler])
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except ValueError as error:
        print(hide_credentials(f"leadsman {named}: {error}"), file=sys.stderr)
        sys.exit(EXIT_BAD_SETTINGS)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has what it wants; the interpreter's last flush must find a file that is open.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


if __name__ == "__main__":
    sys.exit(main())
