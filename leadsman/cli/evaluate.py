"""`leadsman evaluate`: show what policies do, without a cluster, by the code of extender and controller.

Exit code: 0: every policy is good; 1: a telemetry policy is refused or has a problem, or with --fail-on-violation a
rule is violated; 2: a file cannot be read, or the extender's policy file cannot be used.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from leadsman.cli.evaluation import input_files, report
from leadsman.cli.evaluation.input_files import STANDARD_INPUT
from leadsman.cli.evaluation.report import EvaluationReport
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, existing_folder
from leadsman.decision.policy import digest
from leadsman.sources.policy_file import PolicyFile

EXIT_POLICIES_BAD, EXIT_GOOD = 1, 0


def options(add: Options) -> None:
    add.parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add.parser.add_argument("--fail-on-violation", action="store_true", help="exit with 1 also when a rule is violated")
    add.parser.add_argument(
        "--adopt", action="store_true", help="count the labels that the original left as ours, as the controller does"
    )
    add.argument("policy", "the extender's policy file: only say whether it can be used", None, existing_file)
    add.argument(
        "policies",
        "folder or file of TASPolicies, as kubectl takes them; - is standard input, also for the other files",
        None,
        file_or_folder,
        metavar="PATH",
    )
    add.argument(
        "metrics",
        'metric values as YAML or JSON, {METRIC: {NODE: "1500m"}}; an absent node has no value',
        None,
        input_file,
        metavar="FILE",
    )
    add.argument(
        "nodes",
        "output of `kubectl get nodes -o json`, or a list of names (default: the nodes that have metrics)",
        None,
        input_file,
        metavar="FILE",
    )
    add.argument(
        "request", "a request body that kube-scheduler sent to filter or prioritize", None, input_file, metavar="FILE"
    )


def file_or_folder(text: str) -> Path:
    return existing_folder(text) if Path(text).is_dir() else input_file(text)


def input_file(text: str) -> Path:
    return STANDARD_INPUT if text == str(STANDARD_INPUT) else existing_file(text)


def main(args: argparse.Namespace) -> int:
    """ValueError when a file cannot be read or used."""
    if args.policy is not None:
        sys.stdout.write(f"policy {digest(PolicyFile(args.policy).current)} can be used\n")
        return EXIT_GOOD
    if args.policies is None or args.metrics is None:
        raise ValueError("--policies and --metrics are both needed: the policies, and the values to try them on")
    files = (args.policies, args.metrics, args.nodes, args.request)
    if files.count(STANDARD_INPUT) > 1:
        raise ValueError("- stands for two files; standard input can be only one of them")
    found = report.evaluate(input_files.read_inputs(*files), adopt=args.adopt)
    sys.stdout.write(_json(found) if args.json else report.render(found))
    failed = bool(found.problems) or (args.fail_on_violation and bool(found.violations))
    return EXIT_POLICIES_BAD if failed else EXIT_GOOD


def _json(found: EvaluationReport) -> str:
    plain: Mapping[str, Any] = msgspec.to_builtins(found)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"
