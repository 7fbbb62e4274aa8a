"""`leadsman simulate rewards`: what learning from failures is worth, on a virtual clock."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import msgspec

from leadsman.cli.options import Options, positive_int, positive_number
from leadsman.simulator.rewards import comparison
from leadsman.simulator.rewards.cluster import SimulationSettings
from leadsman.simulator.rewards.comparison import RunJob
from leadsman.simulator.rewards.strategy_run import RunResult

DEFAULTS = SimulationSettings()


def options(add: Options) -> None:
    add.flag("seeds", "how many (default 30)", 30, positive_int)
    add.flag("first-seed", "the first of them (default 0)", 0, _whole, metavar="N")
    add.flag("workers", "processes (default: one a CPU)", os.cpu_count() or 1, positive_int)
    add.parser.add_argument("--json", action="store_true", help="every number, as JSON")
    cluster = add.group("cluster")
    cluster.flag("nodes", f"(default {DEFAULTS.nodes})", DEFAULTS.nodes, positive_int)
    cluster.flag("bad", f"nodes that fail pods (default {DEFAULTS.bad})", DEFAULTS.bad, positive_int)
    cluster.flag("failures-on-bad-ratio", "of pods there (default 0.8)", DEFAULTS.failures_on_bad_ratio, _ratio)
    cluster.flag("failures-elsewhere-ratio", "(default 0.02)", DEFAULTS.failures_elsewhere_ratio, _ratio)
    pods = add.group("pods")
    pods.flag("placements", "before, and again after the faults move (default 1000)", DEFAULTS.placements, positive_int)
    pods.flag("settle", "placements from the repair to the window (default 1500)", DEFAULTS.settle, positive_int)
    pods.flag("join-settle", "placements from the join to the window (default 100)", DEFAULTS.join_settle, positive_int)
    pods.flag("window", "placements that shares are taken of (default 1500)", DEFAULTS.window, positive_int)
    pods.flag("interval-seconds", "between placements (default 6)", DEFAULTS.interval_seconds, positive_number)
    pods.flag("outcome-seconds", "until a pod fails or not (default 10)", DEFAULTS.outcome_seconds, positive_number)
    pods.flag("lifetime-seconds", "of a pod (default 600)", DEFAULTS.lifetime_seconds, positive_number)
    add.flag("half-life-seconds", "of the agents' evidence (default 3600)", DEFAULTS.half_life_seconds, positive_number)


def settings(args: argparse.Namespace) -> SimulationSettings:
    """ValueError when they do not fit together."""
    return SimulationSettings(**{name: getattr(args, name) for name in SimulationSettings.__struct_fields__})


def main(args: argparse.Namespace) -> int:
    wanted = settings(args)
    with ProcessPoolExecutor(args.workers) as pool:

        def run(one: Callable[[RunJob], RunResult], jobs: list[RunJob]) -> Iterable[RunResult]:
            return _with_progress(pool.map(one, jobs), len(jobs))

        found = comparison.compare(wanted, args.first_seed, args.seeds, run)
    print(msgspec.json.format(msgspec.json.encode(found)).decode() if args.json else comparison.render(found))
    return 0


def _with_progress(results: Iterable[RunResult], total: int) -> Iterator[RunResult]:
    """Progress for who watches."""
    watched = sys.stderr.isatty()
    for done, result in enumerate(results, 1):
        if watched:
            print(f"\r{done} of {total} runs", end="" if done < total else "\n", file=sys.stderr, flush=True)
        yield result


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: want a whole number, 0 or more")
    return int(text)


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number from 0 to 1")
    return value
