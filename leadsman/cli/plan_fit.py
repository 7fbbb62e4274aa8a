"""`leadsman plan fit`: how many more pods fit, with their bounds and backups. It changes nothing in a cluster.

Exit code: 0: the sets that were asked for fit; 1: they do not, or it is not proven that they do.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, positive_int
from leadsman.cli.plan_inputs import PlanInput, plan_input_options, read_input_with_plugins
from leadsman.cli.pod_templates import read_templates
from leadsman.cluster.model import Cluster
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings
from leadsman.planning.capacity.consequences import additions, losses, removals
from leadsman.planning.capacity.count import PackingSolver, count_together, only
from leadsman.planning.capacity.fit_model import CapacityModel, PodTemplate, model_capacity
from leadsman.planning.capacity.fit_problem import Packing, Problem
from leadsman.planning.capacity.report import Fit, FitReport, alone_fit, as_json, as_text, sets_fit
from leadsman.simulator.solver.process import solver_installed

EXIT_FITS, EXIT_DOES_NOT_FIT = 0, 1


def options(add: Options) -> None:
    add.parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        type=existing_file,
        metavar="FILE",
        help="manifests of the pods: Pods, Deployments, StatefulSets, ReplicaSets, Jobs; may be given several times."
        " All of them with their replicas are one set",
    )
    add.argument(
        "sets", "how many sets must fit (default {default}); if they do not, what to add is shown", 1, positive_int
    )
    add.argument(
        "node-cost",
        'what a node costs: a label of nodes with a number, or a JSON file {"node": number}',
        "",
        metavar="LABEL|FILE",
    )
    add.argument("remove", "look at so many nodes that may be removed, the dearest and emptiest first", 0, positive_int)
    add.parser.add_argument(
        "--no-backups", action="store_true", help="reserve nothing for failures, for clusters without self-healing"
    )
    add.parser.add_argument("--json", action="store_true", help="print the answer as JSON, with every failure")
    plan_input_options(add)


def main(args: argparse.Namespace) -> int:
    """ValueError when a file cannot be used."""
    began, cpu_began = time.monotonic(), time.process_time()
    given = read_input_with_plugins(args)
    templates = read_templates(args.filename, given.cluster)
    if args.nodes is not None:
        templates = [_memory_only(each) for each in templates]
    report = _report(given, templates, args)
    sys.stdout.write(as_json(report) if args.json else as_text(report))
    spent = time.process_time() - cpu_began
    print(f"{time.monotonic() - began:.1f} s, of them {spent:.1f} s of CPU", file=sys.stderr)
    return EXIT_FITS if report.fitting_sets >= report.wanted else EXIT_DOES_NOT_FIT


def _memory_only(template: PodTemplate) -> PodTemplate:
    """The files of kubernetes-edge-scheduler count memory alone."""
    requests = Resources(memory_bytes=template.pod.requests.memory_bytes, pods=1)
    return replace(template, pod=replace(template.pod, requests=requests))


def _report(given: PlanInput, templates: list[PodTemplate], args: argparse.Namespace) -> FitReport:
    settings = BackupSettings(rack_label=args.rack_label)
    model = model_capacity(given.situation, templates, settings, backups=not args.no_backups)
    solver = _solver()
    costs = _costs(args.node_cost, given.cluster)
    sets = None
    if len(templates) > 1 or templates[0].per_set > 1:
        sets = sets_fit(model, count_together(model, solver))
    report = FitReport(
        source=given.source,
        wanted=args.sets,
        templates=tuple(_alone(model, number, not args.no_backups, solver) for number in range(len(templates))),
        sets=sets,
        failures=tuple(losses(model)),
        removals=tuple(removals(model, costs, args.remove, not args.no_backups)),
    )
    if report.at_most_sets >= args.sets:
        return report
    return replace(report, additions=tuple(additions(model, args.sets, costs, solver)))


def _solver() -> PackingSolver | None:
    """None: the extra `plan` is not installed. It is imported when the first question is asked."""
    if not solver_installed():
        return None

    def exactly(problem: Problem, least: int, most: int, refused: Sequence[Packing]) -> tuple[Packing | None, int]:
        from leadsman.simulator.solver.exact_packing import exact_packing

        return exact_packing(problem, least, most, refused)

    return exactly


def _alone(model: CapacityModel, template: int, backups: bool, solver: PackingSolver | None) -> Fit:
    alone = only(model, template)
    preempting = _without_lower_priority(alone, backups)
    more = None if preempting is None else count_together(preempting, solver).sets
    return alone_fit(alone, model.templates[template].per_set, count_together(alone, solver), more)


def _without_lower_priority(model: CapacityModel, backups: bool) -> CapacityModel | None:
    """The model without the pods that may be preempted for its template; None: there are none."""
    [template] = model.templates
    pods = model.situation.cluster.pods
    lower = {uid for uid, pod in pods.items() if pod.node and pod.priority < template.pod.priority}
    if not lower:
        return None
    kept = BackupPlan({uid: each for uid, each in model.plan.pods.items() if uid not in lower})
    return model_capacity(model.situation.changed(dict.fromkeys(lower)), [template], model.settings, kept, backups)


def _costs(given: str, cluster: Cluster) -> Mapping[str, float]:
    """Node → cost; without those whose cost is unknown."""
    if not given:
        return {}
    if Path(given).exists() and not Path(given).is_dir():
        try:
            return msgspec.json.decode(Path(given).read_bytes(), type=dict[str, float])
        except msgspec.MsgspecError as error:
            raise ValueError(f'--node-cost: {given}: {error}; write {{"node": number}}') from error
    costs = {}
    for node in cluster.nodes.values():
        if given in node.labels:
            try:
                costs[node.name] = float(node.labels[given])
            except ValueError as error:
                raise ValueError(
                    f'--node-cost: node {node.name} has {given}="{node.labels[given]}"; want a number'
                ) from error
    if not costs:
        raise ValueError(f"--node-cost: {given} is neither a file nor a label of any node")
    return costs
