"""`leadsman explain`: why a pod was placed where it is, what was decided lately, or what would be decided on a pod that
does not exist yet.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from leadsman.cli import extender_client, output
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import THROUGH_KUBECTL, existing_file
from leadsman.cli.kubectl import Kubectl

_MAX_YAML_BYTES = 256 << 10


def options(add: Options) -> None:
    add.parser.add_argument(
        "pod", metavar="POD", nargs="?", help="NAMESPACE/NAME or NAME; without it, the newest decisions are listed"
    )
    add.parser.add_argument(
        "-n",
        "--namespace",
        help="the pod's namespace (default: default; with kubectl that of the context)",
        metavar="NAMESPACE",
    )
    add.parser.add_argument("-A", "--all-namespaces", action="store_true", help="list decisions of every namespace")
    add.parser.add_argument(
        "-f",
        "--filename",
        help="what would be decided on the pod or workload of this YAML (-: standard input)",
        type=_file_or_stdin,
        metavar="FILE",
    )
    add.argument(
        "snapshot",
        "with -f: on a cluster that `leadsman snapshot` wrote to a file (default: asks the extender)",
        None,
        existing_file,
    )
    extender_client.options(add, "every node and number")


def main(args: argparse.Namespace) -> int:
    """ValueError when the flags do not fit together or a file cannot be used."""
    if args.snapshot is not None and args.filename is None:
        raise ValueError("--snapshot needs -f FILE: the pod to decide on")
    if args.pod and (args.filename is not None or args.all_namespaces):
        raise ValueError(f"{args.pod}: leave out the pod with -f and with -A")
    if args.filename is not None:
        return _explain_file(args, _read(args.filename))
    if args.pod is None:
        return _list_decisions(args)
    pod = args.pod if "/" in args.pod else f"{_namespace(args)}/{args.pod}"
    return extender_client.show_page(args, f"/explain?pod={quote(pod)}")


def _explain_file(args: argparse.Namespace, yaml: str) -> int:
    if args.snapshot is None:
        return extender_client.show_page(args, "/explain", yaml.encode())
    from leadsman.cli import what_if

    print(what_if.explain_on_snapshot(yaml, str(args.filename), args.snapshot, args.output), end="")
    return 0


def _list_decisions(args: argparse.Namespace) -> int:
    namespace = "" if args.all_namespaces else _namespace(args)
    with extender_client.connect(args) as client:

        def render() -> str:
            # The newest first, over all replicas.
            kept = client.json_of_all("/decisions", lambda each: (each["replica"], each["namespace"], each["name"]))
            decisions = sorted(kept, key=lambda each: each["decided_seconds_ago"])
            listed = [each for each in decisions if namespace in ("", each["namespace"])]
            if args.output in ("json", "yaml"):
                return output.document(listed, args.output)
            if not listed:
                return f"no decision is kept on a pod {f'of the namespace {namespace}' if namespace else 'at all'}\n"
            return output.table(rows(listed))

        output.show(args, render)
    return 0


def rows(decisions: Sequence[Mapping[str, Any]]) -> Sequence[Sequence[str]]:
    return [
        ["NAMESPACE", "POD", "AGE", "PASSED", "REFUSED", "BEST"],
        *(
            [
                each["namespace"],
                each["name"],
                f"{each['decided_seconds_ago']:.0f}s",
                str(each["passed"]),
                str(each["refused"]),
                each["best"] or "-",
            ]
            for each in decisions
        ),
    ]


def _namespace(args: argparse.Namespace) -> str:
    if args.namespace:
        return str(args.namespace)
    return Kubectl.of(args).namespace() if args.extender == THROUGH_KUBECTL else "default"


def _file_or_stdin(text: str) -> Path:
    return Path(text) if text == "-" else existing_file(text)


def _read(file: Path) -> str:
    data = sys.stdin.buffer.read(_MAX_YAML_BYTES + 1) if str(file) == "-" else file.read_bytes()
    if len(data) > _MAX_YAML_BYTES:
        raise ValueError(f"{file}: larger than {_MAX_YAML_BYTES >> 10} KiB, which no pod needs")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: {error}; want YAML in UTF-8") from error
