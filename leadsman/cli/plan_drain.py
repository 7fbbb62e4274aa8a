"""`leadsman plan drain NODE…`: moves that empty nodes ahead of maintenance, or why a pod cannot go.

Exit code: 0: nothing that anybody would miss is left on the nodes; 1: something is.
"""

import argparse
import math
import sys
import time
from datetime import datetime

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import positive_number
from leadsman.cli.move_plans import backup_settings, plan_output_options, pods_text, time_text, write_plan
from leadsman.cli.output import progress
from leadsman.cli.plan_inputs import plan_input_options, read_input_with_plugins
from leadsman.planning.moves.drain import MAX_NODES_TRIED, DrainEnd, DrainPlan, plan_drain
from leadsman.planning.moves.plan_run import MovePlanLimits

EXIT_EMPTY, EXIT_NOT_EMPTY = 0, 1

_TRIED = "everything was tried, also with any one pod of another node moved aside first"

_WHY_NOT_EMPTY = {
    DrainEnd.IMPOSSIBLE: f"impossible: {_TRIED}",
    DrainEnd.NONE_KEEPS_BACKUPS: f"no way was found that keeps all backups; {_TRIED}; --no-backups gives them up",
    DrainEnd.OUT_OF_TIME: "no way to empty the nodes was found in the time; there may be one: raise --seconds",
    DrainEnd.TOO_LARGE: f"not every way was tried, as there are more than {MAX_NODES_TRIED} nodes; there may be one",
}


def options(add: Options) -> None:
    add.parser.add_argument("node", nargs="+", help="a node that is to be empty", metavar="NODE")
    add.argument(
        "at",
        "when the maintenance begins, as 2026-11-22T09:00+01:00: no move begins after it (local time without offset)",
        None,
        _time,
        metavar="TIME",
    )
    add.argument(
        "seconds",
        f"how long to try everything, in a cluster of at most {MAX_NODES_TRIED} nodes (default {{default}})",
        20.0,
        positive_number,
    )
    plan_output_options(add)
    plan_input_options(add)


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when the input cannot be used, names no such node, or the maintenance has
    begun."""
    if args.at is not None and args.at <= time.time():
        raise ValueError(f"--at {time_text(args.at)} is in the past: no move would begin; leave it out to begin now")
    with progress("reads the cluster") as say:
        given = read_input_with_plugins(args)
        say(f"plans how pods leave {', '.join(args.node)}")
        until = time.monotonic() + args.seconds
        drain = plan_drain(
            given.situation, args.node, backup_settings(args), given.taken_at, args.at, lambda: time.monotonic() < until
        )
    write_plan(drain.plan, args)
    print("\n".join(_remarks(drain, args)), file=sys.stderr if args.json else sys.stdout)
    if said := _WHY_NOT_EMPTY.get(drain.end):
        print(said, file=sys.stderr)
    if args.at is not None and (late := _late(drain, args.at)):
        print(late, file=sys.stderr)
    return EXIT_NOT_EMPTY if drain.plan.left_out or drain.losing_backups else EXIT_EMPTY


def _remarks(drain: DrainPlan, args: argparse.Namespace) -> list[str]:
    return [
        *pods_text("STAYS UNTIL THE NODE STOPS", drain.staying),
        *pods_text("IS BOUND TO A NODE THAT GOES", drain.bound_to),
        *pods_text("LOSES ITS BACKUP", drain.losing_backups),
        f"before you apply it, so that nothing new comes: kubectl cordon {' '.join(args.node)}",
    ]


def _late(drain: DrainPlan, at: float) -> str:
    """Tells whether the moves cannot all begin in time, at the controller's own rate; "": they can."""
    per_minute = MovePlanLimits().per_minute
    needed_seconds = math.ceil(len(drain.plan.moves) / per_minute) * 60.0
    if time.time() + needed_seconds <= at:
        return ""
    begin = time_text(at - needed_seconds)
    return (
        f"{len(drain.plan.moves)} moves take {needed_seconds / 60:.0f} minutes at {per_minute} a minute: they had to "
        f"begin by {begin}, and those that have not begun by {time_text(at)} are not made"
    )


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: want a time as 2026-11-22T09:00+01:00") from None
