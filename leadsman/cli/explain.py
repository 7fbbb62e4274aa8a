"""`leadsman explain`: why a pod was placed where it is, what was decided lately, or what would be decided on a pod that
does not exist yet.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from extender.api.decisions import MAX_NODES, DecisionDetail, DecisionRow, WhatIfRequest
from extender.api.what_if import DEFAULT_NAMESPACE
from leadsman.cli import extender_client, output
from leadsman.cli.extender_client import ExtenderApi, ExtenderError, asks_kubectl
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file
from leadsman.cli.kubectl import Kubectl
from leadsman.cli.views import group_lines
from leadsman.decision.explain import ROWS, format_explanation
from leadsman.runtime.text_table import wrap

_MAX_YAML_BYTES = 256 << 10


def options(add: Options) -> None:
    add.parser.add_argument(
        "pod", metavar="POD", nargs="?", help="NAMESPACE/NAME or NAME; without it, the newest decisions are listed"
    )
    add.parser.add_argument(
        "-n",
        "--namespace",
        help="the pod's namespace, with -f if the file names none (default: default; with kubectl that of the context)",
        metavar="NAMESPACE",
    )
    add.parser.add_argument("-A", "--all-namespaces", action="store_true", help="list decisions of every namespace")
    add.parser.add_argument(
        "-f",
        "--filename",
        help="what would be decided on the pods and workloads of this YAML (-: standard input)",
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
    """Runs the command. Raises ValueError when the flags do not fit together or a file cannot be used."""
    if args.snapshot is not None and args.filename is None:
        raise ValueError("--snapshot needs -f FILE: the pod to decide on")
    if args.pod and (args.filename is not None or args.all_namespaces):
        raise ValueError(f"{args.pod}: leave out the pod with -f and with -A")
    if args.filename is not None:
        _explain_file(args, _documents(args.filename))
    elif args.pod is None:
        _list_decisions(args)
    else:
        namespace, _, name = args.pod.rpartition("/")
        path = f"/pods/{quote(namespace or _namespace(args), safe='')}/{quote(name, safe='')}"
        with extender_client.connect_to_every(args) as replicas:
            output.show(args, lambda: _newest(replicas, path, _wants_all(args)), decision_text)
    return 0


def _wants_all(args: argparse.Namespace) -> bool:
    return args.output in ("json", "yaml")


def _explain_file(args: argparse.Namespace, documents: Sequence[str]) -> None:
    """Shows what would be decided on each document; as data, a list where there are several."""

    def show(decide: Callable[[str], DecisionDetail]) -> None:
        def decided() -> DecisionDetail | list[DecisionDetail]:
            details = [decide(each) for each in documents]
            return details if len(details) > 1 else details[0]

        output.show(
            args, decided, lambda found: "\n".join(map(decision_text, found if isinstance(found, list) else [found]))
        )

    if args.snapshot is not None:
        from leadsman.cli import what_if  # Here: asking an extender needs nothing of it.

        namespace = args.namespace or DEFAULT_NAMESPACE
        show(lambda yaml: what_if.decide_on_snapshot(yaml, str(args.filename), args.snapshot, namespace))
        return
    namespace = _namespace(args)
    with extender_client.connect(args) as api:
        show(lambda yaml: _ask(api, "/what-if", _wants_all(args), WhatIfRequest(yaml, namespace)))


def _ask(api: ExtenderApi, path: str, wants_all: bool, body: object = None) -> DecisionDetail:
    """Asks for the decision, with the nodes that a table shows or with all."""
    return api.get(path, DecisionDetail, body, limit=MAX_NODES if wants_all else ROWS)


def _newest(replicas: Sequence[ExtenderApi], path: str, wants_all: bool) -> DecisionDetail:
    """Returns the newest decision on the pod that any replica keeps. Raises ExtenderError when none does."""
    found, failed = list[DecisionDetail](), list[ExtenderError]()
    for api in replicas:
        try:
            found.append(_ask(api, path, wants_all))
        except ExtenderError as error:
            failed.append(error)
    # Who has no decision comes first: when none has, that is the answer, and the others are said beside it.
    failed.sort(key=lambda each: each.status != HTTPStatus.NOT_FOUND)
    for each in failed if found else failed[1:]:
        if each.status != HTTPStatus.NOT_FOUND:
            print(f"not counted: {each}", file=sys.stderr)
    if not found:
        raise failed[0]
    return min(found, key=lambda detail: detail.seconds_ago)


def decision_text(detail: DecisionDetail) -> str:
    """Writes the decision in lines of 100 columns; what would help comes last."""
    by = f" by {detail.decision.replica}" if detail.decision.replica else ""
    further = [
        *([f"backup: {detail.backup}"] if detail.backup else []),
        *group_lines("nodes that passed", detail.node_groups),
        *(f"what would help: {each}" for each in detail.fixes),
    ]
    return "\n".join(
        [
            f"decided {detail.seconds_ago:.1f} s ago{by}, policy {detail.explanation.policy}",
            format_explanation(detail.explanation, detail.total).rstrip("\n"),
            *(line for each in further for line in wrap(each)),
            "",
        ]
    )


def _list_decisions(args: argparse.Namespace) -> None:
    namespace = "" if args.all_namespaces else _namespace(args)

    def text(decisions: Sequence[DecisionRow]) -> str:
        if not decisions:
            return f"no decision is kept on a pod {f'of the namespace {namespace}' if namespace else 'at all'}\n"
        rows = [
            (
                each.pod,
                each.at,
                str(each.passed),
                str(each.asked - each.passed),
                each.best[0].node if each.best else "-",
            )
            for each in decisions
        ]
        return output.table([("POD", "DECIDED", "PASSED", "REFUSED", "BEST"), *rows])

    with extender_client.connect_to_every(args) as replicas:

        def newest_first() -> Sequence[DecisionRow]:
            kept = [each for api in replicas for each in api.every("/decisions", DecisionRow)]
            of_namespace = (each for each in kept if not namespace or each.pod.startswith(f"{namespace}/"))
            return sorted(of_namespace, key=lambda each: each.at, reverse=True)

        output.show(args, newest_first, text)


def _namespace(args: argparse.Namespace) -> str:
    if args.namespace:
        return str(args.namespace)
    return Kubectl.of(args).namespace() if asks_kubectl(args) else DEFAULT_NAMESPACE


def _file_or_stdin(text: str) -> Path:
    return Path(text) if text == "-" else existing_file(text)


def _documents(file: Path) -> list[str]:
    """Returns the documents of the file, each as it is written, as errors name its lines; without the empty ones."""
    data = sys.stdin.buffer.read(_MAX_YAML_BYTES + 1) if str(file) == "-" else file.read_bytes()
    if len(data) > _MAX_YAML_BYTES:
        raise ValueError(f"{file}: larger than {_MAX_YAML_BYTES >> 10} KiB, which no pod needs")
    try:
        # At a line's beginning, --- ends a document also within a block of text.
        documents = re.split(r"^---(?=\s|$)", data.decode(), flags=re.MULTILINE)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: {error}; want YAML in UTF-8") from error
    return [each for each in documents if re.search(r"^\s*[^\s#]", each, re.MULTILINE)] or documents[:1]
