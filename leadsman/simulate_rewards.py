"""`leadsman simulate rewards`: what learning from failures is worth, on a virtual clock."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import msgspec

from leadsman.options import Options, count, positive
from simulator.rewards import comparison
from simulator.rewards.comparison import Job
from simulator.rewards.trial import Result
from simulator.rewards.world import Settings

USUAL = Settings()


def options(add: Options) -> None:
    add.flag("seeds", "how many (default 30)", 30, count)
    add.flag("first-seed", "the first of them (default 0)", 0, _whole, metavar="N")
    add.flag("workers", "processes (default: one a CPU)", os.cpu_count() or 1, count)
    add.parser.add_argument("--json", action="store_true", help="every number, as JSON")
    cluster = add.group("cluster")
    cluster.flag("nodes", f"(default {USUAL.nodes})", USUAL.nodes, count)
    cluster.flag("bad", f"nodes that fail pods (default {USUAL.bad})", USUAL.bad, count)
    cluster.flag("failures-on-bad-ratio", "of pods there (default 0.8)", USUAL.failures_on_bad_ratio, _ratio)
    cluster.flag("failures-elsewhere-ratio", "(default 0.02)", USUAL.failures_elsewhere_ratio, _ratio)
    pods = add.group("pods")
    pods.flag("placements", "before, and again after the faults move (default 1000)", USUAL.placements, count)
    pods.flag("settle", "placements from the repair to the window (default 1500)", USUAL.settle, count)
    pods.flag("join-settle", "placements from the join to the window (default 100)", USUAL.join_settle, count)
    pods.flag("window", "placements that shares are taken of (default 1500)", USUAL.window, count)
    pods.flag("interval-seconds", "between placements (default 6)", USUAL.interval_seconds, positive)
    pods.flag("outcome-seconds", "until a pod fails or not (default 10)", USUAL.outcome_seconds, positive)
    pods.flag("lifetime-seconds", "of a pod (default 600)", USUAL.lifetime_seconds, positive)
    add.flag("half-life-seconds", "of the agents' evidence (default 3600)", USUAL.half_life_seconds, positive)


def settings(args: argparse.Namespace) -> Settings:
    """ValueError when they do not fit together."""
    return Settings(**{name: getattr(args, name) for name in Settings.__struct_fields__})


def main(args: argparse.Namespace) -> int:
    wanted = settings(args)
    with ProcessPoolExecutor(args.workers) as pool:

        def run(one: Callable[[Job], Result], jobs: list[Job]) -> Iterable[Result]:
            return _shown(pool.map(one, jobs), len(jobs))

        found = comparison.compare(wanted, args.first_seed, args.seeds, run)
    print(msgspec.json.format(msgspec.json.encode(found)).decode() if args.json else comparison.text(found))
    return 0


def _shown(results: Iterable[Result], total: int) -> Iterator[Result]:
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
