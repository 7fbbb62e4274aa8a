"""`leadsman plan optimise`: places and backups of all bounded pods together. It changes nothing in a cluster.

Exit code: 0: every pod has a place that keeps its bounds, and the backup that it wants; 1: one has not.
"""

import argparse
import sys
import time
from collections.abc import Callable

from msgspec.structs import replace

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import file_to_write, positive_int, positive_number
from leadsman.cli.output import document, progress
from leadsman.cli.plan_inputs import PlanInput, plan_input_options, planned_backups, read_input_with_plugins
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.moves.ordering import Wish, order_moves
from leadsman.planning.optimise.choices import Choices, Ended, Found, Problem, Score, greedy_choices, score
from leadsman.planning.optimise.cluster_problem import model_cluster
from leadsman.planning.optimise.optimised_plan import OptimisedPlan, as_text, broken, plan_of_choices, report_of
from leadsman.published.documents import encode
from leadsman.published.moves import MovePlan, PlanOrigin
from leadsman.simulator import solver

NO_SOLVER = "no solver is installed, so this is the greedy plan; `pip install leadsman[plan]` brings one"

EXIT_COMPLETE, EXIT_INCOMPLETE = 0, 1


def options(add: Options) -> None:
    plan_input_options(add)
    budget = add.group("budget")
    budget.argument("work", "how long to search, in the solver's deterministic time", 30.0, positive_number)
    budget.argument("seed", "of the search: the same seed and work give the same plan", 1, positive_int)
    budget.argument(
        "seconds", "how long the command may take: the best plan until then is shown", 3600.0, positive_number
    )
    add.parser.add_argument("--greedy", action="store_true", help="do not search; needs no solver")
    add.parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    add.parser.add_argument(
        "-o",
        "--output",
        help="write the moves that lead there, for `leadsman plan apply`",
        type=file_to_write,
        metavar="FILE",
    )


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when a file cannot be used."""
    began = time.monotonic()
    with progress("reads the cluster") as say:
        given = read_input_with_plugins(args)
        say(f"plans greedily for {len(given.cluster.pods)} pods")
        settings = replace(planned_backups(args), max_improvements=len(given.cluster.pods))
        modelled = model_cluster(given.situation, settings)
        start = greedy_choices(modelled.problem, modelled.start)
        greedy = score(modelled.problem, start)
        if greedy is None:
            raise RuntimeError("the greedy plan does not fit on the nodes; please report this")
        # What follows the search judges every pod again, as what came before it did, and takes about as long.
        found = _found(modelled.problem, start, greedy, args, args.seconds - 2 * (time.monotonic() - began), say)
        say("checks the plan")
        plan = plan_of_choices(modelled, found.choices)
        if wrong := broken(plan, modelled.uids, settings):
            first = "; ".join(f"{what}: {why}" for what, why in list(wrong.items())[:3])
            raise RuntimeError(f"the plan fails its own check, so it is not shown: {first}; please report this")
        moves = None if args.output is None else _moves(given, plan, settings)
    if modelled.problem.pods and not args.greedy and not solver.is_installed():
        print(NO_SOLVER, file=sys.stderr)
    report = report_of(modelled, plan, greedy, found)
    sys.stdout.write(document(report, "json") if args.json else as_text(report))
    if moves is not None:
        for each in moves.left_out:
            print(f"pod {each.namespace}/{each.name} is not moved: {each.why}", file=sys.stderr)
        args.output.write_bytes(encode(moves) + b"\n")
    print(f"{time.monotonic() - began:.1f} s", file=sys.stderr)
    lacking = any(each.unplaced or each.uncovered for each in report.pods)
    return EXIT_INCOMPLETE if lacking else EXIT_COMPLETE


def _found(
    problem: Problem, start: Choices, at: Score, args: argparse.Namespace, seconds: float, say: Callable[[str], None]
) -> Found:
    if not problem.pods or args.greedy or not solver.is_installed():
        return Found(start, at, 0, 0.0, Ended.NO_SEARCH)
    if seconds <= 0:
        return Found(start, at, 0, 0.0, Ended.SECONDS)

    def tell(found: Found) -> None:
        share = found.score.reserved / max(at.reserved, 1)
        say(f"searches; the best plan reserves {share:.1%} of what the greedy one does")

    say("searches; what no plan can save is proven first")
    return solver.optimise(problem, start, args.seed, args.work, seconds, tell)


def _moves(given: PlanInput, plan: OptimisedPlan, settings: BackupSettings) -> MovePlan:
    """Returns how the pods that have a node get to their new ones."""
    before, after = given.cluster.pods, plan.situation.cluster.pods
    leaving = [uid for uid, pod in before.items() if pod.node and uid in after and after[uid].node != pod.node]
    wishes = [Wish(uid, after[uid].node, "so that less room is reserved") for uid in leaving]
    ordered = order_moves(given.situation, wishes, settings)
    moves, left_out = tuple(ordered.moves), tuple(ordered.left_out)
    return MovePlan(origin=PlanOrigin.OPTIMISE, taken_at=given.taken_at, moves=moves, left_out=left_out)
