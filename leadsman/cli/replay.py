"""`leadsman replay`: decide recorded requests again, and say which answers change.

Exit code: 0: no answer changes; 1: some do, or could not be judged; 2: the recording or the policy cannot be read.
"""

import argparse
import sys
from collections.abc import Iterator

import msgspec

from extender.replay import explanation
from extender.replay.report import Report, format_report, replay
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, existing_folder
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.recording.reader import RecordedRequest, Recording

EXIT_UNCHANGED, EXIT_CHANGED = 0, 1


def options(add: Options) -> None:
    add.parser.add_argument("recording", metavar="DIR", type=existing_folder, help="the extender's --record-dir")
    add.argument(
        "policy", "judge by this policy (default: each request by the one that decided it)", None, existing_file
    )
    add.argument("explain", "print what was answered for this pod, and why", "", metavar="NAMESPACE/NAME")
    add.parser.add_argument("--json", action="store_true", help="print the result as JSON")


def main(args: argparse.Namespace) -> int:
    """ValueError when the recording or the policy cannot be read."""
    other = PolicyFile(args.policy).current if args.policy else None
    recording = Recording(args.recording)
    if args.explain:
        pod = args.explain if "/" in args.explain else f"default/{args.explain}"
        sys.stdout.write(explanation.explain_pod(recording.requests(), pod, other, args.json))
        return EXIT_UNCHANGED
    report = replay(_requests(recording), other)
    report = msgspec.structs.replace(report, notes=[*report.notes, *recording.torn])
    sys.stdout.write(_json(report) if args.json else format_report(report))
    return EXIT_CHANGED if report.has_changes else EXIT_UNCHANGED


def _requests(recording: Recording) -> Iterator[RecordedRequest]:
    """ValueError when there is none: an empty replay must not look like one in which nothing changed."""
    empty = True
    for each in recording.requests():
        empty = False
        yield each
    if empty:
        raise ValueError(f"no request is recorded; {'; '.join(recording.torn) or 'has kube-scheduler called it yet?'}")


def _json(report: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
