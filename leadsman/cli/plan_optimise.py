"""`leadsman plan optimise`: places and backups of all bounded pods together. It changes nothing in a cluster.

Exit code: 0: every pod has a place that keeps its bounds, and the backup that it wants; 1: one has not.
"""

import argparse
import sys
import time

from leadsman.cli.options import Options, positive_int, positive_number
from leadsman.cli.plan_inputs import plan_input_options, read_plan_input
from leadsman.planning.backups.model import BackupSettings
from leadsman.planning.optimise.answer import OptimisedPlan, broken, plan_of_choices
from leadsman.planning.optimise.cluster_problem import ClusterProblem, model_cluster
from leadsman.planning.optimise.greedy import balanced, greedy_choices
from leadsman.planning.optimise.problem import Choices, Problem, score
from leadsman.planning.optimise.report import PlanReport, as_json, as_text, report_of
from leadsman.planning.optimise.search import Ended, Found
from leadsman.simulator.solver import parent
from leadsman.simulator.solver.job import Job

NO_SOLVER = "no solver is installed, so this is the greedy plan; `pip install leadsman[plan]` brings one"

EXIT_COMPLETE, EXIT_INCOMPLETE = 0, 1


def options(add: Options) -> None:
    plan_input_options(add)
    budget = add.group("budget")
    budget.argument(
        "work", "how long to search, in the solver's deterministic time (default 30)", 30.0, positive_number
    )
    budget.argument("seed", "of the search: the same seed and work give the same plan (default 1)", 1, positive_int)
    budget.argument("seconds", "a cap on the time that it takes (default 3600)", 3600.0, positive_number)
    add.parser.add_argument("--greedy", action="store_true", help="do not search; needs no solver")
    add.parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def main(args: argparse.Namespace) -> int:
    """ValueError when a file cannot be used."""
    began = time.monotonic()
    given = read_plan_input(args)
    settings = BackupSettings(rack_label=args.rack_label, max_improvements=len(given.cluster.pods))
    modelled = model_cluster(given.cluster, given.inputs, settings)
    start = greedy_choices(modelled.problem, modelled.start)
    found = _found(modelled.problem, start, args)
    choices = balanced(modelled.problem, found.choices)
    plan = plan_of_choices(modelled, choices)
    if wrong := _wrong(plan, modelled, settings):
        raise RuntimeError(f"the plan fails its own check, so it is not shown: {wrong}; please report this")
    report = report_of(modelled, plan, start, choices, found)
    sys.stdout.write(as_json(report) if args.json else as_text(report))
    print(f"{time.monotonic() - began:.1f} s", file=sys.stderr)
    return EXIT_COMPLETE if _complete(report) else EXIT_INCOMPLETE


def _found(problem: Problem, start: Choices, args: argparse.Namespace) -> Found:
    at = score(problem, start)
    if at is None:
        raise RuntimeError("the greedy plan does not fit on the nodes; please report this")
    if not problem.pods or args.greedy or not parent.solver_installed():
        if not args.greedy and problem.pods:
            print(NO_SOLVER, file=sys.stderr)
        return Found(start, at, 0, 0.0, Ended.NO_SEARCH)
    try:
        return parent.run(Job(problem, start, args.seed, args.work, args.seconds), quiet=False)
    except parent.SolverFailed as error:
        print(f"{error}; this is the greedy plan", file=sys.stderr)
        return Found(start, at, 0, 0.0, Ended.NO_SEARCH)


def _wrong(plan: OptimisedPlan, modelled: ClusterProblem, settings: BackupSettings) -> str:
    return "; ".join(f"{what}: {why}" for what, why in list(broken(plan, modelled.uids, settings).items())[:3])


def _complete(report: PlanReport) -> bool:
    return not any(each.unplaced or each.uncovered for each in report.pods)
