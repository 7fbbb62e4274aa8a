"""Forecasts of usage on held-out days of synthetic histories: `python -m benchmarks.forecast`.

No public trace of pods can be read here, so the histories are made up, by seed: a day's curve with its peak at some
hour, noise, weekends with half of it, workloads that grow, and now and then a day that is busier than all before.
"""

import argparse

import numpy as np

from leadsman.planning.forecast.held_out import held_out_errors
from leadsman.planning.forecast.model import Series, UsageHistory
from leadsman.runtime.text_table import align_columns

DAY, STEP_SECONDS = 86_400, 300
KINDS = ("steady", "daily", "weekly", "growing", "bursts")


def synthetic_history(kind: str, workloads: int, days: int, seed: int) -> UsageHistory:
    """Cpu in millis and memory in bytes of one pod a workload."""
    rng = np.random.default_rng(seed)
    times = np.arange(0, days * DAY, STEP_SECONDS, dtype=np.float64)
    history = {}
    for number in range(workloads):
        level, peak = rng.uniform(50, 2000), rng.uniform(0, DAY)
        shape = np.ones_like(times)
        if kind != "steady":
            shape = 1 + 0.7 * np.cos((times - peak) / DAY * 2 * np.pi)
        if kind == "weekly":
            shape = shape * np.where(times // DAY % 7 >= 5, 0.5, 1.0)
        if kind == "growing":
            shape = shape * (1 + 0.05 * times / DAY)
        if kind == "bursts":
            shape = shape * np.repeat(np.where(rng.random(days) < 0.15, 2.0, 1.0), DAY // STEP_SECONDS)
        cpu = level * shape * rng.lognormal(0, 0.25, len(times))
        memory = level * 1e6 * (0.8 + 0.2 * shape) * rng.lognormal(0, 0.05, len(times))
        history[f"shop/deployment/{kind}-{number}"] = {"cpu": Series(times, cpu), "memory": Series(times, memory)}
    return history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=8, help="of each kind")
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--held-out", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rows: list[tuple[str, ...]] = [("HISTORY", "RESOURCE", "FORECAST", "LOSS", "EXCEEDED", "SLACK", "ERROR BY HOUR")]
    for kind in KINDS:
        for each in held_out_errors(synthetic_history(kind, args.workloads, args.days, args.seed), args.held_out):
            shares = (f"{value:.1%}" for value in (each.loss, each.exceeded, each.slack, each.hourly_error))
            rows.append((kind, each.resource, each.forecast, *shares))
    print("\n".join(align_columns(rows)))


if __name__ == "__main__":
    main()
