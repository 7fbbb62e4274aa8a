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


def fault(text: str) -> Fault:
    return Fault(one_of(*Fault)(text))


def ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number from 0 to 1")
    return value


FLAGS_BY_GROUP: dict[str, dict[str, tuple[str, Callable[[str], object]]]] = {
    "cluster": {
        "nodes": ("number of nodes", positive_int),
        "bad": ("nodes that fail pods", positive_int),
        "failures-on-bad-ratio": ("share of pods that fail on a bad node", ratio),
        "failures-elsewhere-ratio": ("share of pods that fail on any other node", ratio),
        "fault": (f"what is wrong with bad nodes: {', '.join(Fault)}", fault),
        "rack-nodes": ("nodes of a rack", positive_int),
        "slow-factor": ("run time on a slow node, as a multiple", positive_number),
    },
    "pods": {
        "types": ("types of pods", positive_int),
        "bad-types": ("types that fail on every node", non_negative_int),
        "failures-of-bad-types-ratio": ("share of their pods that fail", ratio),
        "placements": ("pods placed before the faults move, and as many after", positive_int),
        "settle": ("pods placed between the repair and the window in which shares are taken", positive_int),
        "join-settle": ("pods placed between a node's joining and that window", positive_int),
        "window": ("pods placed in that window", positive_int),
        "interval-seconds": ("time between two placements", positive_number),
        "outcome-seconds": ("time from a pod's start until it fails, or is known not to", positive_number),
        "lifetime-seconds": ("time that a pod exists, failed or not", positive_number),
        "half-life-seconds": ("time in which evidence loses half its weight", positive_number),
    },
}
"""Each flag sets the field of SimulationSettings of its name, and has its default."""


def options(add: Options) -> None:
    add.argument("seeds", "number of seeds, one run of each strategy a seed (default {default})", 30, positive_int)
    add.argument("first-seed", "the first of the seeds (default {default})", 0, non_negative_int)
    add.argument("workers", "number of processes (default: one a CPU)", os.cpu_count() or 1, positive_int)
    add.parser.add_argument("--json", action="store_true", help="print every number as JSON")
    for title, flags in FLAGS_BY_GROUP.items():
        group = add.group(title)
        for name, (text, parse) in flags.items():
            group.argument(name, f"{text} (default {{default}})", getattr(DEFAULTS, name.replace("-", "_")), parse)


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
