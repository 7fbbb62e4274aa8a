"""`leadsman simulate rewards`: what learning from failures is worth, simulated in virtual time."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import msgspec

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import non_negative_int, one_of, positive_int, positive_number
from leadsman.simulator.rewards import comparison
from leadsman.simulator.rewards.cluster import Fault, SimulationSettings
from leadsman.simulator.rewards.comparison import RunJob
from leadsman.simulator.rewards.strategy_run import RunResult

DEFAULTS = SimulationSettings()


def options(add: Options) -> None:
    add.argument("seeds", "number of seeds, one run of each strategy a seed (default {default})", 30, positive_int)
    add.argument("first-seed", "the first of the seeds (default {default})", 0, non_negative_int)
    add.argument("workers", "number of processes (default: one a CPU)", os.cpu_count() or 1, positive_int)
    add.parser.add_argument("--json", action="store_true", help="print every number as JSON")
    cluster = add.group("cluster")
    cluster.argument("nodes", "number of nodes (default {default})", DEFAULTS.nodes, positive_int)
    cluster.argument("bad", "nodes that fail pods (default {default})", DEFAULTS.bad, positive_int)
    cluster.argument(
        "failures-on-bad-ratio",
        "share of pods that fail on a bad node (default {default})",
        DEFAULTS.failures_on_bad_ratio,
        _ratio,
    )
    cluster.argument(
        "failures-elsewhere-ratio",
        "share of pods that fail on any other node (default {default})",
        DEFAULTS.failures_elsewhere_ratio,
        _ratio,
    )
    cluster.argument(
        "fault",
        f"what is wrong with bad nodes: {', '.join(Fault)} (default {{default}})",
        DEFAULTS.fault,
        _fault,
        metavar="KIND",
    )
    cluster.argument("rack-nodes", "nodes of a rack (default {default})", DEFAULTS.rack_nodes, positive_int)
    cluster.argument(
        "slow-factor",
        "run time on a slow node, as a multiple (default {default})",
        DEFAULTS.slow_factor,
        positive_number,
        metavar="F",
    )
    pods = add.group("pods")
    pods.argument("types", "types of pods (default {default})", DEFAULTS.types, positive_int)
    pods.argument(
        "bad-types", "types that fail on every node (default {default})", DEFAULTS.bad_types, non_negative_int
    )
    pods.argument(
        "failures-of-bad-types-ratio",
        "share of their pods that fail (default {default})",
        DEFAULTS.failures_of_bad_types_ratio,
        _ratio,
    )
    for name, text in {
        "placements": "pods placed before the faults move, and as many after",
        "settle": "pods placed between the repair and the window in which shares are taken",
        "join-settle": "pods placed between a node's joining and that window",
        "window": "pods placed in that window",
    }.items():
        default = getattr(DEFAULTS, name.replace("-", "_"))
        pods.argument(name, f"{text} (default {{default}})", default, positive_int)
    for name, text in {
        "interval-seconds": "time between two placements",
        "outcome-seconds": "time from a pod's start until it fails, or is known not to",
        "lifetime-seconds": "time that a pod exists, failed or not",
        "half-life-seconds": "time in which evidence loses half its weight",
    }.items():
        default = getattr(DEFAULTS, name.replace("-", "_"))
        pods.argument(name, f"{text} (default {{default}})", default, positive_number, metavar="S")


def settings(args: argparse.Namespace) -> SimulationSettings:
    """What is simulated. ValueError when the flags do not fit together."""
    return SimulationSettings(**{name: getattr(args, name) for name in SimulationSettings.__struct_fields__})


def main(args: argparse.Namespace) -> int:
    cluster = settings(args)
    with ProcessPoolExecutor(args.workers) as pool:

        def run(one: Callable[[RunJob], RunResult], jobs: list[RunJob]) -> Iterable[RunResult]:
            return _with_progress(pool.map(one, jobs), len(jobs))

        compared = comparison.compare(cluster, args.first_seed, args.seeds, run)
    print(msgspec.json.format(msgspec.json.encode(compared)).decode() if args.json else comparison.render(compared))
    return 0


def _with_progress(results: Iterable[RunResult], total: int) -> Iterator[RunResult]:
    """Shows progress on a terminal."""
    on_terminal = sys.stderr.isatty()
    for done, result in enumerate(results, 1):
        if on_terminal:
            print(f"\r{done} of {total} runs", end="" if done < total else "\n", file=sys.stderr, flush=True)
        yield result


def _fault(text: str) -> Fault:
    return Fault(one_of(*Fault)(text))


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number from 0 to 1")
    return value
