"""`leadsman doctor`: looks at a cluster with Leadsman through kubectl, and says what is wrong and what to do.

Exit code: 0: nothing is wrong; 1: something is; warnings alone leave it 0.
"""

import argparse

from leadsman.cli import kubectl, output
from leadsman.cli.diagnosis import checks, gathering
from leadsman.cli.diagnosis.model import Finding, Status
from leadsman.cli.flags.options import Options
from leadsman.cli.kubectl import Kubectl
from leadsman.runtime.version import VERSION


def options(add: Options) -> None:
    kubectl.options(add)
    output.options(add, json="the findings", watch=False)


def main(args: argparse.Namespace) -> int:
    seen = gathering.look(Kubectl.of(args), args.extender_namespace)
    findings = checks.diagnose(seen, VERSION)
    if args.output in ("json", "yaml"):
        output.write(output.document(findings, args.output))
    else:
        output.write(text(findings))
    return int(any(each.status is Status.ERROR for each in findings))


def text(findings: list[Finding]) -> str:
    """A table, and below it what to do about each finding that is not ok."""
    rows = [[output.STATUS, "CHECK", "FINDING"], *([each.status, each.check, each.text] for each in findings)]
    advice = [f"{each.check}: {each.what_to_do}" for each in findings if each.what_to_do]
    return output.table(rows) + "".join(f"{line}\n" for line in ["", *advice] if advice)
