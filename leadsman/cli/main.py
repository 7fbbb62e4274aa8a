"""`leadsman COMMAND`. Settings come from flags and environment here, once, and are passed down."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType

from leadsman.cli.command_failed import CommandFailed
from leadsman.cli.flags import log_flags
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import THROUGH_KUBECTL
from leadsman.cli.parser import CommandParser
from leadsman.runtime.lean_aiohttp import import_aiohttp
from leadsman.runtime.redaction import hide_credentials
from leadsman.runtime.version import VERSION

GROUPS = {
    "Ask": {
        "explain": "show why a pod was placed where it is, or where one would be",
        "nodes": "list the nodes as the extender sees them",
        "delay": "show the round trip between two nodes, as each measures it",
        "rewards": "show each node's failure record by pod type",
        "page": "serve the extender's page to the browser of this machine",
        "doctor": "look for what is wrong with Leadsman in a cluster, and say what to do",
        "state": "show how much the extender sees of the cluster, and what is wrong with it",
    },
    "Plan": {
        "plan": "plan for the whole cluster offline, and hand a plan of moves over to the controller",
        "simulate": "compare scheduling strategies on a simulated cluster",
        "snapshot": "write the cluster, as planners and decisions see it, to a file",
        "replay": "decide recorded requests again, by another policy, and show what changes",
        "evaluate": "show what telemetry policies do, without a cluster",
    },
    "Install": {
        "certs": "create the CA and the certificates that extender and kube-scheduler use",
        "configure-scheduler": "add the extender to a kube-scheduler's configuration, or remove it",
        "uninstall": "list what Leadsman left in a cluster, and delete it",
        "plugins": "list the installed plugins, or check one",
    },
    "Other": {
        "demo": "run a small cluster on this machine and explain one placement",
        "completion": "print the script that completes commands and flags in a shell",
        "version": "show this program's version",
    },
    "Run in pods": {
        "agent": "measure on this node and report",
        "extender": "answer kube-scheduler's filter and prioritize calls",
        "controller": "label nodes as telemetry policies say, and requeue pods that the extender refused",
        "etcd-member": "find out how a member of etcd begins, and write its configuration file",
        "etcd-issuer": "give each of our processes its own user and password of etcd",
        "etcd-load": "write rewards that were saved from another etcd, where this one has none",
    },
}
"""Commands by what they are for, as the help lists them. Each is the module leadsman.cli.<command>."""

COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}

EXIT_FAILED = 1
EXIT_BAD_SETTINGS = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""As a shell reports a program that SIGPIPE ended."""


def build_parser(
    environ: Mapping[str, str] = os.environ, only: str | None = None, program: str = "leadsman"
) -> argparse.ArgumentParser:
    """The command line. only: build the options of this command alone, of none where it is "", so that an agent imports
    no extender, and its image needs none. program: as the user called it.
    """
    top = CommandParser(
        prog=program,
        usage=f"{program} COMMAND [FLAG ...]",
        description=f"Measures what kube-scheduler cannot see.\n\n{_grouped_commands()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"leadsman {VERSION}")
    commands = top.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog=program, help=argparse.SUPPRESS
    )
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if only in (None, name):
            module = _module(name)
            module.options(Options(command, environ))
            command.set_defaults(run=module.main)
    return top


def _grouped_commands() -> str:
    width = max(map(len, COMMANDS))
    groups = (
        "\n".join([f"{title}:", *(f"  {name:{width}}  {text}" for name, text in commands.items())])
        for title, commands in GROUPS.items()
    )
    return "\n\n".join(groups)


def named_command(words: Sequence[str]) -> str:
    """The command among the words; "": there is none."""
    return next((word for word in words if word in COMMANDS), "")


def _module(command: str) -> ModuleType:
    """ValueError where its packages are not installed: the agent's image leaves out what an agent never imports."""
    try:
        return import_module(f"leadsman.cli.{command.replace('-', '_')}")
    except ModuleNotFoundError as error:
        raise ValueError(
            f"this installation has only the agent (no module {error.name}): use the image leadsman or pip install it"
        ) from error


def kubectl_plugin() -> int:
    """`kubectl leadsman COMMAND`: it finds the extender in the cluster, unless the environment names one."""
    return main(environ={"LEADSMAN_EXTENDER": THROUGH_KUBECTL, **os.environ}, program="kubectl leadsman")


def main(
    arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ, program: str = "leadsman"
) -> int:
    """Runs the command that is named first. Exit code."""
    # numpy's threads spin beside the requests, and a fit gains nothing from them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "_ARGCOMPLETE" in environ:
        import_module("leadsman.cli.completion").answer()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0] == "help":
        given = [*given[1:], "--help"]
    named = named_command(given)
    if named == "agent":
        import_aiohttp()
    try:
        args = build_parser(environ, named, program).parse_args(given)
        log_flags.start_logging(args)
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except ValueError as error:
        print(hide_credentials(f"{program} {named}: {error}"), file=sys.stderr)
        sys.exit(EXIT_BAD_SETTINGS)
    except CommandFailed as error:
        from leadsman.cli.output import printable  # Here: an agent never needs it.

        print(printable(hide_credentials(f"{program} {named}: {error}")), file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has what it wants; the interpreter's last flush must find a file that is open.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


if __name__ == "__main__":
    sys.exit(main())
