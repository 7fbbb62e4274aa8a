"""`leadsman simulate placement`: the same waiting pods placed by several policies, on a cluster that is only read."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import asdict, replace

from leadsman.cli import output
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import one_of
from leadsman.cli.plan_inputs import PlanInput, plan_input_options, planned_backups, read_input_with_plugins
from leadsman.cluster.model import UNBOUND, Cluster
from leadsman.planning.moves.search import why_never_moved
from leadsman.runtime.text_table import align_columns
from leadsman.simulator.edge_rule import EdgeRule
from leadsman.simulator.generated_cluster import BadSpec, parse_spec
from leadsman.simulator.outcome import Outcome, compare
from leadsman.simulator.placements import Online, Placement, Policy

HEADER = ("POLICY", "ACCEPTED %", "RESERVE %", "LOST %", "LOST OF COVERED %", "MOVES", "SECONDS")

POLICIES = ("online", "edge", "edge-clusters")


def options(add: Options) -> None:
    assert isinstance(add.parser, argparse.ArgumentParser)
    kinds = add.parser.add_subparsers(dest="simulation", metavar="WHAT", required=True)
    shows = "place the same pods by Leadsman and by the edge scheduler's rule, and compare"
    description = f"{shows[0].upper()}{shows[1:]}."
    placement = kinds.add_parser("placement", help=shows, description=description, allow_abbrev=False)
    _placement_options(add.for_subcommand(placement))


def _placement_options(add: Options) -> None:
    plan_input_options(add)
    run = add.group("what is compared")
    run.argument("policies", f"of {','.join(POLICIES)} (default all)", POLICIES, _policies, metavar="NAME,…")
    run.argument("runs", "with --generate: as many clusters, of seeds one after another", 1)
    run.argument("batch", "online: pods that arrive between two backup plans", 10)
    add.parser.add_argument(
        "--from-scratch", action="store_true", help="first take every pod off its node that its owner would make again"
    )
    add.parser.add_argument("--json", action="store_true", help="print every number as JSON")


def _policies(text: str) -> tuple[str, ...]:
    return tuple(one_of(*POLICIES)(name) for name in text.split(","))


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when a file cannot be used, or a policy cannot be used on it."""
    settings = planned_backups(args)
    known: dict[str, Policy] = {"edge": EdgeRule(clustering=False), "edge-clusters": EdgeRule(clustering=True)}
    outcomes: dict[str, list[Outcome]] = {name: [] for name in args.policies}
    with output.progress("reads the cluster") as say:
        for run, given in enumerate(_inputs(args), start=1):
            say(f"run {run} of {args.runs}: {', '.join(args.policies)}")
            cluster = _emptied(given.cluster) if args.from_scratch else given.cluster
            if not cluster.unbound_pods:
                raise ValueError(f"{given.source}: no pod waits for a node; --from-scratch takes all off their nodes")
            online = Online(settings, args.batch, given.judges)
            policies = {name: known.get(name, online) for name in args.policies}
            found = compare(policies, cluster, given.inputs, _cpu_seconds)
            for name, (_, outcome) in found.items():
                outcomes[name].append(outcome)
    if args.json:
        plain = {
            name: {**_shares_of(runs), "runs": [asdict(run) for run in runs], "places": _places_of(found[name][0])}
            for name, runs in outcomes.items()
        }
        sys.stdout.write(output.document(plain, "json"))
    else:
        sys.stdout.write(_as_text(outcomes))
    return 0


def _inputs(args: argparse.Namespace) -> Iterator[PlanInput]:
    if args.runs == 1:
        with contextlib.ExitStack() as args.closing:
            yield read_input_with_plugins(args)
        return
    if args.generate is None:
        raise ValueError(f"--runs {args.runs} needs --generate: files are the same in each run")
    try:
        first = parse_spec(args.generate).seed
    except BadSpec as error:
        raise ValueError(f"--generate: {error}") from error
    fields = [field for field in args.generate.split(",") if not field.strip().startswith("seed=")]
    for seed in range(first, first + args.runs):
        args.generate = ",".join([*fields, f"seed={seed}"])
        with contextlib.ExitStack() as args.closing:
            yield read_input_with_plugins(args)


def _emptied(cluster: Cluster) -> Cluster:
    movable = [pod for pod in cluster.pods.values() if pod.node and not why_never_moved(pod)]
    return cluster.changed(pods={pod.uid: replace(pod, node=UNBOUND) for pod in movable})


def _cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _as_text(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Returns a line for each policy, its runs taken together."""
    rows: list[tuple[str, ...]] = [HEADER]
    for name, runs in outcomes.items():
        shares = (f"{100 * share:.1f}" for share in _shares_of(runs).values())
        moves, seconds = sum(run.moves for run in runs) / len(runs), sum(run.seconds for run in runs) / len(runs)
        rows.append((name, *shares, f"{moves:g}", f"{seconds:.1f}"))
    return "\n".join(align_columns(rows)) + "\n"


def _places_of(placement: Placement) -> dict[str, dict[str, str]]:
    """Pod → its node and its backup; "": it has none."""
    backups = placement.backups.backups
    return {
        f"{pod.namespace}/{pod.name}": {"node": pod.node, "backup": backups[uid].node if uid in backups else ""}
        for uid, pod in placement.cluster.pods.items()
    }


def _shares_of(runs: Sequence[Outcome]) -> dict[str, float]:
    """Returns shares of all runs together: the accepted of the waiting pods, the reserve of the memory of pods that it
    is for, the lost of the falling pods, and the lost of those that had a backup."""
    return {
        "accepted": sum(run.accepted for run in runs) / max(sum(run.pods for run in runs), 1),
        "reserved": sum(run.reserved_bytes for run in runs) / max(sum(run.pod_bytes for run in runs), 1),
        "lost": sum(run.lost for run in runs) / max(sum(run.falling for run in runs), 1),
        "lost_of_covered": sum(run.lost_covered for run in runs) / max(sum(run.covered for run in runs), 1),
    }
