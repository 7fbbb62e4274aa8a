"""`leadsman replay`: decide recorded requests again, and say which answers change.

Exit code: 0: no answer changes; 1: some do, or could not be judged; 2: the recording or the policy cannot be read.
"""

import argparse
import os
import signal
import sys
import time
from threading import Event

from extender.replay.report import Replay, explain_pod, format_report
from leadsman.cli import output
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, existing_folder
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.recording.reader import Recording

EXIT_UNCHANGED, EXIT_CHANGED = 0, 1

LOOK_SECONDS = 0.2
"""Time between two looks for more of a recording that is being written."""

PROGRESS_SECONDS = 5.0

NICENESS = 19
"""A replay is this much nicer than a live extender beside it, whose answers come first where CPU is short."""


def options(add: Options) -> None:
    add.parser.add_argument("recording", metavar="DIR", type=existing_folder, help="the extender's --record-dir")
    add.argument(
        "policy", "judge by this policy (default: each request by the one that decided it)", None, existing_file
    )
    add.argument("explain", "print what was answered for this pod, and why", "", metavar="NAMESPACE/NAME")
    add.parser.add_argument(
        "--follow", action="store_true", help="go on with what is written meanwhile, until Ctrl-C; then report"
    )
    add.parser.add_argument("--json", action="store_true", help="print the result as JSON")


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when the recording or the policy cannot be read."""
    other = PolicyFile(args.policy).current if args.policy else None
    recording, replay = Recording(args.recording), Replay(other)
    if args.explain:
        if args.follow:
            raise ValueError("--explain and --follow exclude each other; leave one out")
        pod = args.explain if "/" in args.explain else f"default/{args.explain}"
        sys.stdout.write(explain_pod(recording.requests(), pod, other, args.json))
        return EXIT_UNCHANGED
    if args.follow:
        _follow(recording, replay)
    else:
        with output.progress("reads the recording") as say:
            for each in recording.requests():
                replay.add(each)
                say(f"{replay.report.requests:,} requests judged")
    report = replay.report
    if not report.requests:  # An empty replay must not look like one in which nothing changed.
        raise ValueError(f"no request is recorded; {'; '.join(recording.torn) or 'has kube-scheduler called it yet?'}")
    report.notes += recording.torn
    sys.stdout.write(output.document(report, "json") if args.json else format_report(report))
    return EXIT_CHANGED if report.has_changes else EXIT_UNCHANGED


def _follow(recording: Recording, replay: Replay) -> None:
    """Judges what is recorded until SIGINT or SIGTERM."""
    os.nice(NICENESS)
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    report, told_requests, told_at = replay.report, 0, float("-inf")

    def tell() -> None:
        nonlocal told_requests, told_at
        if report.requests > told_requests and time.monotonic() - told_at >= PROGRESS_SECONDS:
            told_requests, told_at = report.requests, time.monotonic()
            told = f"{report.requests:,} requests judged, {report.changed:,} answers change"
            print(f"{told}; Ctrl-C ends with the report", file=sys.stderr, flush=True)

    def wait() -> bool:
        tell()
        return not stop.wait(LOOK_SECONDS)

    for each in recording.requests(wait):
        replay.add(each)
        tell()
        if stop.is_set():
            return
