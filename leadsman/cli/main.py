"""Runs `leadsman COMMAND`. Settings come from flags and environment here, once, and are passed down."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module

from leadsman.cli.flags.options import CommandFailed, CommandParser, Options
from leadsman.cli.flags.values import THROUGH_KUBECTL
from leadsman.runtime.lean_aiohttp import import_aiohttp
from leadsman.runtime.redaction import hide_credentials
from leadsman.runtime.text_table import PrintableStream
from leadsman.runtime.version import VERSION

SERVERS = ("agent", "controller", "extender")
"""Says what runs for months, and has little memory."""

GROUPS = {
    "Ask": {
        "explain": "show why a pod was placed where it is, or where one would be",
        "nodes": "list the nodes as the extender sees them",
        "delay": "show the round trip between two nodes, as each measures it",
        "rewards": "show each node's failure record by pod type",
        "state": "show how much the extender sees of the cluster, and what is wrong with it",
        "page": "serve the extender's page to the browser of this machine",
        "doctor": "look for what is wrong in a cluster, and say what to do",
    },
    "Plan": {
        "plan": "plan for the whole cluster offline, and hand plans to the controller",
        "snapshot": "write the cluster, as planners and decisions see it, to a file",
        "simulate": "compare scheduling strategies on a simulated cluster",
        "replay": "decide recorded requests again, by another policy, and show what changes",
    },
    "Install": {
        "certs": "create the CA and the certificates that extender and kube-scheduler use",
        "configure-scheduler": "add the extender to a kube-scheduler's configuration, or remove it",
        "uninstall": "list what Leadsman left in a cluster, and delete it",
    },
    "Try": {"demo": "run a small cluster on this machine, with its page in the browser"},
}
"""Says what people call, by what it is for, as the help lists it."""

UNLISTED = {
    "plugins": "list the installed plugins, or check one",
    "completion": "print the script that completes commands and flags in a shell",
    "agent": "measure on this node and report",
    "extender": "answer kube-scheduler's filter and prioritize calls",
    "controller": "label nodes as telemetry policies say, and requeue pods that the extender refused",
    "etcd-member": "find out how a member of etcd begins, and stand before it as its gateway",
}
"""Says what authors of plugins, shells and pods call."""

COMMANDS = {name: text for commands in (*GROUPS.values(), UNLISTED) for name, text in commands.items()}

_SHARED_MODULES = {"views": ("nodes", "delay", "rewards", "state", "page")}
"""Modules of several commands, whose functions are <command>_options and <command>_main. Any other command is its
own module, with `options` and `main`."""

EXIT_FAILED = 1
EXIT_BAD_SETTINGS = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""The exit code when nobody reads the output any more, as a shell reports a program that SIGPIPE ended."""


def build_parser(
    environ: Mapping[str, str] = os.environ, only: str | None = None, program: str = "leadsman"
) -> argparse.ArgumentParser:
    """Builds the parser of the command line. only: build the options of this command alone, of none where it is "", so
    that an agent imports no extender, and its image needs none. program: as the user called it."""
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
            add_options, run = _functions(name)
            add_options(Options(command, environ))
            command.set_defaults(run=run)
    return top


def _grouped_commands() -> str:
    groups = (
        "\n".join([f"{title}:", *(f"  {name:21}{text}" for name, text in commands.items())])
        for title, commands in GROUPS.items()
    )
    further = f"Also {', '.join(UNLISTED)}.\n`leadsman help COMMAND` shows a command's flags."
    return "\n\n".join([*groups, further])


def named_command(words: Sequence[str]) -> str:
    """Returns the command among the words; "": there is none."""
    return next((word for word in words if word in COMMANDS), "")


def _functions(command: str) -> tuple[Callable[[Options], None], Callable[[argparse.Namespace], int]]:
    """Returns what adds the command's flags, and what runs it. Raises ValueError where its packages are missing."""
    own = command.replace("-", "_")
    shared = next((module for module, commands in _SHARED_MODULES.items() if command in commands), "")
    try:
        module = import_module(f"leadsman.cli.{shared or own}")
    except ModuleNotFoundError as error:
        raise ValueError(
            f"this installation has only the agent (no module {error.name}): use the image leadsman or pip install it"
        ) from error
    prefix = f"{own}_" if shared else ""
    return getattr(module, f"{prefix}options"), getattr(module, f"{prefix}main")


def kubectl_plugin() -> int:
    """Runs `kubectl leadsman COMMAND`: it finds the extender in the cluster, unless the environment names one."""
    return main(environ={"LEADSMAN_EXTENDER": THROUGH_KUBECTL, **os.environ}, program="kubectl leadsman")


def main(
    arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ, program: str = "leadsman"
) -> int:
    """Runs the command that is named first, and returns the exit code."""
    # numpy's threads spin beside the requests, and a fit gains nothing from them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "_ARGCOMPLETE" in environ:
        import_module("leadsman.cli.completion").answer()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0] == "help":
        given = [*given[1:], "--help"]
    named = named_command(given)
    if named in SERVERS:
        import_aiohttp()
    # Once for all that commands print: a server's words are a stranger's. What a shell closed by `>&-`, nobody reads.
    with (
        open(os.devnull, "w") as nobody,
        redirect_stdout(PrintableStream(sys.stdout or nobody)),
        redirect_stderr(PrintableStream(sys.stderr or nobody)),
    ):
        return _run(given, named, environ, program)


def _run(given: Sequence[str], named: str, environ: Mapping[str, str], program: str) -> int:
    from leadsman.cli.flags.process_flags import start_logging  # Here: it imports aiohttp.

    try:
        args = build_parser(environ, named, program).parse_args(given)
        start_logging(args)
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except ValueError as error:
        print(hide_credentials(f"{program} {named}: {error}"), file=sys.stderr)
        sys.exit(EXIT_BAD_SETTINGS)
    except CommandFailed as error:
        print(hide_credentials(f"{program} {named}: {error}"), file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        if named in SERVERS:
            raise
        with suppress(OSError):
            sys.stdout.flush()
        # The interpreter's last flush must find a file that is open and has room.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return EXIT_BROKEN_PIPE  # The reader, such as `head`, has what it wants.
        print(hide_credentials(f"{program} {named}: {error}"), file=sys.stderr)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
