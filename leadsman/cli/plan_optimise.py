"""`leadsman plan optimise`: places and backups of all bounded pods together. It changes nothing in a cluster.

Exit code: 0: every pod has a place that keeps its bounds, and the backup that it wants; 1: one has not.
"""

import argparse
import sys
import time
from pathlib import Path

from leadsman.cli.options import Options, existing_file, positive_int, positive_number
from leadsman.cluster.model import Cluster
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.planning.backups.model import BackupSettings
from leadsman.planning.optimise.answer import OptimisedPlan, broken, plan_of_choices
from leadsman.planning.optimise.cluster_problem import ClusterProblem, model_cluster
from leadsman.planning.optimise.greedy import balanced, greedy_choices
from leadsman.planning.optimise.problem import Choices, Problem, score
from leadsman.planning.optimise.report import PlanReport, as_json, as_text, report_of
from leadsman.planning.optimise.search import Ended, Found
from leadsman.simulator.solver import parent
from leadsman.simulator.solver.job import Job
from leadsman.sources.cluster.cluster_file import BadClusterFile, read_cluster
from leadsman.sources.cluster.edge_files import read_delays, read_edge_cluster
from leadsman.state.snapshot import Snapshot

NO_SOLVER = "no solver is installed, so this is the greedy plan; `pip install leadsman[plan]` brings one"

EXIT_COMPLETE, EXIT_INCOMPLETE = 0, 1

_NOW = 0.0
"""The matrix does not age, and nothing else is read that does."""


def options(add: Options) -> None:
    files = add.group("files; those of kubernetes-edge-scheduler can be given with its own flags")
    for short, name, text, parse in (
        ("-d", "delay_matrix", "round trips in ms: a line for each node, whitespace between values", existing_file),
        ("-m", "metadata", 'JSON {"node": row}: the node of each row of the matrix', existing_file),
        ("-n", "nodes", 'JSON {"name", "allocatable_memory", "cloud"}: one node, a list, or a folder of files', _path),
        ("-p", "pods", "Deployments in YAML: a file or a folder", _path),
    ):
        long = [f"--{name}"] + ([f"--{name.replace('_', '-')}"] if "_" in name else [])
        files.parser.add_argument(short, *long, help=text, type=parse, metavar="PATH")
    for short, name in (("-s", "simulation"), ("-b", "both")):
        files.parser.add_argument(
            short, f"--{name}", nargs="?", const="", help="accepted for kubernetes-edge-scheduler's command lines"
        )
    files.argument(
        "cluster", "in place of --nodes and --pods: a List as `kubectl get -o json` prints it", None, existing_file
    )
    files.argument(
        "rack-label",
        f"the label of nodes that names their rack (default {BackupSettings().rack_label})",
        BackupSettings().rack_label,
        metavar="LABEL",
    )
    budget = add.group("budget")
    budget.argument(
        "work", "how long to search, in the solver's deterministic time (default 30)", 30.0, positive_number
    )
    budget.argument("seed", "of the search: the same seed and work give the same plan (default 1)", 1, positive_int)
    budget.argument("seconds", "a cap on the time that it takes (default 3600)", 3600.0, positive_number)
    add.parser.add_argument("--greedy", action="store_true", help="do not search; needs no solver")
    add.parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def _path(text: str) -> Path:
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text!r}: no such file or folder")
    return path


def main(args: argparse.Namespace) -> int:
    """ValueError when a file cannot be used."""
    began = time.monotonic()
    cluster, inputs = _read(args)
    settings = BackupSettings(rack_label=args.rack_label, max_improvements=len(cluster.pods))
    modelled = model_cluster(cluster, inputs, settings)
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


def _read(args: argparse.Namespace) -> tuple[Cluster, DecisionInputs]:
    if args.delay_matrix is None or args.metadata is None:
        raise ValueError("--delay_matrix and --metadata are both needed: the delays, and the node of each row")
    if args.cluster is not None and (args.nodes or args.pods):
        raise ValueError("--cluster excludes --nodes and --pods; leave one side out")
    if args.cluster is None and not (args.nodes and args.pods):
        raise ValueError("--nodes and --pods are both needed, or --cluster")
    delays = read_delays(args.delay_matrix, args.metadata)
    inputs = DecisionInputs(Snapshot(), Policy(), _NOW, delay_views=(delays,))
    if args.cluster is None:
        return read_edge_cluster(args.nodes, args.pods), inputs
    try:
        return read_cluster(args.cluster.read_bytes()), inputs
    except BadClusterFile as error:
        raise ValueError(f"{args.cluster}: {error}") from error


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
