"""`leadsman policy check`: say whether a policy file can be used, and what its rules read.

Exit code: 0: it can be used; 2: it cannot, with the path of the field and what is allowed.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file
from leadsman.decision import policy
from leadsman.decision.policy import Policy
from leadsman.decision.rules.rule_description import describe_rules


def options(add: Options) -> None:
    assert isinstance(add.parser, argparse.ArgumentParser)
    commands = add.parser.add_subparsers(dest="policy_command", metavar="COMMAND", required=True)
    check = commands.add_parser("check", help="say whether a policy file can be used, and what its rules read")
    check.add_argument("file", metavar="FILE", type=existing_file)


def main(args: argparse.Namespace) -> int:
    """ValueError, naming the file, when the policy cannot be used."""
    print("\n".join(_report(read_policy(args.file))))
    return 0


def read_policy(path: Path) -> Policy:
    """ValueError, naming the file, when it is no policy."""
    try:
        return policy.parse(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _report(checked: Policy) -> Iterator[str]:
    yield f"policy {policy.digest(checked)} can be used"
    for rule in describe_rules(checked):
        yield f"{rule.kind} {rule.name}: {rule.expression}"
        for scope, texts in rule.parts.items():
            yield from (f"  of {scope}: {text}" for text in texts)
