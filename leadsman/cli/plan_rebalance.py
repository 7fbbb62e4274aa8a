"""`leadsman plan rebalance`: moves of pods to nodes that serve them better by more than a move costs."""

import argparse
import time

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, positive_int, positive_number
from leadsman.cli.move_plans import backup_settings, plan_output_options, write_plan
from leadsman.cli.output import progress
from leadsman.cli.plan_inputs import plan_input_options, read_input_with_plugins
from leadsman.planning.rebalance_plan import RebalanceSettings, plan_rebalance
from leadsman.published.documents import BadDocument
from leadsman.published.moves import MOVES, Departure

_KEY = MOVES.key.replace(".", r"\.")
_READS_MOVES = f"kubectl -n leadsman get configmap {MOVES.config_map} -o jsonpath='{{.data.{_KEY}}}'"


def options(add: Options) -> None:
    settings = RebalanceSettings()
    add.argument(
        "threshold",
        "points by which the gain of a move must exceed its cost",
        settings.threshold,
        positive_number,
        metavar="POINTS",
    )
    add.argument("max-moves", "largest number of moves", settings.max_moves, positive_int)
    add.argument("moved-before", f"the state of earlier moves: `{_READS_MOVES}`", None, existing_file)
    plan_output_options(add)
    plan_input_options(add)


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when the input cannot be used."""
    settings = RebalanceSettings(threshold=args.threshold, max_moves=args.max_moves)
    with progress("reads the cluster") as say:
        given = read_input_with_plugins(args)
        say(f"compares {len(given.cluster.nodes)} nodes for {len(given.cluster.pods)} pods")
        now = time.time() if given.taken_at is None else given.taken_at
        plan = plan_rebalance(given.situation, _departures(args), settings, backup_settings(args), given.taken_at, now)
    write_plan(plan, args)
    return 0


def _departures(args: argparse.Namespace) -> tuple[Departure, ...]:
    if args.moved_before is None:
        return ()
    try:
        data = args.moved_before.read_bytes()
        if b'"departures"' not in data:  # in a ConfigMap it stands quoted
            raise BadDocument(f"want what `{_READS_MOVES}` prints")
        return MOVES.decode(data).departures
    except (BadDocument, OSError) as error:
        raise ValueError(f"{args.moved_before}: {error}") from error
