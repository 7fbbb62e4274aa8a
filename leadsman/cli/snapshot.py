"""`leadsman snapshot`: write the cluster, as planners and decisions see it, to a file that every plan command reads."""

import argparse
import sys

from leadsman.cli.files import replace_file
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import file_to_write
from leadsman.cli.output import progress
from leadsman.cli.plan_inputs import plan_input_options, read_plan_input
from leadsman.sources.cluster_snapshot import ClusterSnapshot, snapshot_chunks


def options(add: Options) -> None:
    plan_input_options(add)
    add.parser.add_argument(
        "-o", "--output", help="the file to write (default: standard output)", type=file_to_write, metavar="FILE"
    )


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when the cluster cannot be read or the file not be written."""
    with progress("reads the cluster, and waits for each agent's next report"):
        given = read_plan_input(args)
    snapshot = ClusterSnapshot(given.cluster, given.inputs, given.taken_at, given.missing)
    for what, why in given.missing.items():
        print(f"not in the snapshot: {what}: {why}", file=sys.stderr)
    if args.output is None:
        sys.stdout.buffer.writelines(snapshot_chunks(snapshot))
    else:
        try:
            replace_file(args.output, snapshot_chunks(snapshot))
        except OSError as error:
            raise ValueError(f"{args.output}: {error}") from error
    return 0
