"""Measures what learning from failures is worth: Leadsman, kubeRL's rule, Thompson sampling, plain spreading and
oracles.

    python -m benchmarks.rewards [--seeds 30] [--first-seed 1000] [--workers 2] [SCENARIO ...]

The model was chosen on seeds 0 to 29; seeds from 1000 on judge it. The target is 0.9
of kubeRL's failures before and after the faults move, and half-way to the best possible where that is above 0.85; once
with the oracle as the best, which knows the bad nodes, and once with the best that a learner can do.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from math import sqrt
from statistics import fmean, median, stdev

from leadsman.runtime.text_table import align_columns
from tests.rewards_simulation.cluster import Fault, SimulationSettings
from tests.rewards_simulation.run import RunResult, run_strategy
from tests.rewards_simulation.strategies import STRATEGIES

SCENARIOS = {
    "one type": SimulationSettings(),
    "8 types": SimulationSettings(types=8),
    "racks": SimulationSettings(fault=Fault.RACKS),
    "racks, 8 types": SimulationSettings(fault=Fault.RACKS, types=8),
    "slow nodes": SimulationSettings(fault=Fault.SLOW),
    "drifting rates": SimulationSettings(fault=Fault.DRIFT),
    "one of 8 types fails everywhere": SimulationSettings(types=8, bad_types=1),
    "one type, 4,000 placements": SimulationSettings(placements=4_000),
    "8 types, 4,000 placements": SimulationSettings(types=8, placements=4_000),
}
TARGET_RATIO, NEAR_TARGET_RATIO = 0.9, 0.85

Results = dict[str, list[RunResult]]
"""Strategy → its result on each seed."""


def results(pool: ProcessPoolExecutor, settings: SimulationSettings, first_seed: int, seeds: int) -> Results:
    jobs = [(name, settings, seed) for name in STRATEGIES for seed in range(first_seed, first_seed + seeds)]
    found = list(pool.map(run_strategy, *zip(*jobs, strict=True)))
    return {name: found[place * seeds : (place + 1) * seeds] for place, name in enumerate(STRATEGIES)}


def table(found: Results, settings: SimulationSettings) -> str:
    shares_of_fair = ["REPAIRED/FAIR", "MEDIAN, WORST TENTH", "JOINED/FAIR", "MEDIAN, WORST TENTH"]
    header = ["STRATEGY", "FAILURES/1000", "AFTER MOVE", *shares_of_fair]
    lines = align_columns([header, *([name, *cells(each)] for name, each in found.items())])
    shares = f"{settings.settle} after the repair, {settings.join_settle} after the join"
    return "\n".join(
        [
            *lines,
            verdict("before the faults move", found, "failures_per_1000"),
            verdict("after it", found, "failures_per_1000_after_move"),
            f"shares: of {settings.window} placements, {shares}",
        ]
    )


def cells(each: list[RunResult]) -> list[str]:
    failures = [mean_and_error(each, name, 1) for name in ("failures_per_1000", "failures_per_1000_after_move")]
    shares = []
    for name in ("repaired_share_of_fair", "joined_share_of_fair"):
        ordered = sorted(values(each, name))
        shares += [mean_and_error(each, name, 2), f"{median(ordered):.2f}, {ordered[len(ordered) // 10]:.2f}"]
    return failures + shares


def mean_and_error(each: list[RunResult], name: str, digits: int) -> str:
    found = values(each, name)
    error = stdev(found) / sqrt(len(found)) if len(found) > 1 else 0.0
    return f"{fmean(found):.{digits}f} ± {error:.{digits}f}"


def values(each: list[RunResult], name: str) -> list[float]:
    return [getattr(one, name) for one in each]


def verdict(phase: str, found: Results, name: str) -> str:
    """Says whether ours reaches its targets: the oracle, and the best that a learner can do."""
    means = {strategy: fmean(values(each, name)) for strategy, each in found.items()}
    ratios = {strategy: mean / means["kuberl"] if means["kuberl"] else float("nan") for strategy, mean in means.items()}
    against = [
        f"{best} {ratios[best]:.2f}, so target {target:.2f} {'met' if ratios['leadsman'] <= target else 'NOT met'}"
        for best in ("oracle", "best-learner")
        for target in (TARGET_RATIO if ratios[best] <= NEAR_TARGET_RATIO else (1.0 + ratios[best]) / 2.0,)
    ]
    return f"failures / kubeRL's {phase}: leadsman {ratios['leadsman']:.3f}; {'; '.join(against)}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument("--first-seed", type=int, default=1_000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of: {', '.join(SCENARIOS)}")
    args = options.parse_args()
    if unknown := set(args.scenarios) - SCENARIOS.keys():
        options.error(f"{', '.join(sorted(unknown))}: want some of {', '.join(SCENARIOS)}")
    with ProcessPoolExecutor(args.workers) as pool:
        for name in args.scenarios or SCENARIOS:
            started = time.monotonic()
            found = results(pool, SCENARIOS[name], args.first_seed, args.seeds)
            print(f"{name}, {args.seeds} seeds from {args.first_seed} ({time.monotonic() - started:.0f} s)")
            print(f"{table(found, SCENARIOS[name])}\n", flush=True)


if __name__ == "__main__":
    main()
