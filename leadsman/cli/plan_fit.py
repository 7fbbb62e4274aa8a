"""`leadsman plan fit`: how many more pods fit, with their bounds and backups. It changes nothing in a cluster.

Exit code: 0: the sets that were asked for fit; 1: they do not, or it is not proven that they do.
"""

import argparse
import sys
import time
from collections.abc import Callable

from msgspec.structs import replace

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, positive_int
from leadsman.cli.output import document, progress
from leadsman.cli.plan_inputs import PlanInput, plan_input_options, planned_backups, read_input_with_plugins
from leadsman.cli.pod_templates import read_templates
from leadsman.cluster.resources import Resources
from leadsman.planning.capacity.consequences import additions, losses
from leadsman.planning.capacity.count import count_together
from leadsman.planning.capacity.fit_model import PodTemplate, model_capacity
from leadsman.planning.capacity.report import FitReport, as_text, report_of
from leadsman.simulator import solver

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
    add.parser.add_argument(
        "--no-backups", action="store_true", help="reserve nothing for failures, for clusters without self-healing"
    )
    add.parser.add_argument(
        "--two-failures", action="store_true", help="exit with 1 also where two nodes at once would lose covered pods"
    )
    add.parser.add_argument("--json", action="store_true", help="print the answer as JSON, with every failure")
    plan_input_options(add)


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when a file cannot be used."""
    began, cpu_began = time.monotonic(), time.process_time()
    with progress("reads the cluster") as say:
        given = read_input_with_plugins(args)
        templates = read_templates(args.filename, given.cluster)
        if args.nodes is not None:
            templates = [_memory_only(each) for each in templates]
        report = _report(given, templates, args, say)
    sys.stdout.write(document(report, "json") if args.json else as_text(report))
    spent = time.process_time() - cpu_began
    print(f"{time.monotonic() - began:.1f} s, of them {spent:.1f} s of CPU", file=sys.stderr)
    loses_pods = args.two_failures and report.two_failures.lost
    return EXIT_FITS if report.fits >= args.sets and not loses_pods else EXIT_DOES_NOT_FIT


def _memory_only(template: PodTemplate) -> PodTemplate:
    """Leaves a template its memory alone, which is all that files of kubernetes-edge-scheduler count."""
    requests = Resources(memory_bytes=template.pod.requests.memory_bytes, pods=1)
    return replace(template, pod=replace(template.pod, requests=requests))


def _report(
    given: PlanInput, templates: list[PodTemplate], args: argparse.Namespace, say: Callable[[str], None]
) -> FitReport:
    say(f"plans the backups of what runs on {len(given.cluster.nodes)} nodes")
    model = model_capacity(given.situation, templates, planned_backups(args), backups=not args.no_backups)
    exactly = solver.packing_solver()
    say("counts what fits")
    report = report_of(model, count_together(model, exactly), given.source, args.sets)
    failures = []
    for loss in losses(model):
        failures.append(loss)
        say(f"{report.fits} fit; looks at failure {len(failures)}, of {loss.failure}")
    report = replace(report, failures=tuple(failures), lossless=sum(not each.lost for each in failures))
    if report.at_most >= args.sets:
        return report
    say(f"{report.fits} fit; looks for what to add")
    return replace(report, additions=tuple(additions(model, args.sets, exactly)))
