"""Runs every strategy on many seeds: means with their standard errors, as data and as a table."""

from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from statistics import fmean, stdev

from msgspec import Struct, structs

from leadsman.runtime.text_table import align_columns
from leadsman.simulator.rewards.cluster import SimulationSettings
from leadsman.simulator.rewards.strategies import STRATEGIES
from leadsman.simulator.rewards.strategy_run import RunResult, run_strategy


class StrategyMeans(Struct, frozen=True):
    """Means of one strategy over all seeds. standard_errors: of the four numbers, by name."""

    failures_per_1000: float
    failures_per_1000_after_move: float
    repaired_share_of_fair: float
    joined_share_of_fair: float
    standard_errors: Mapping[str, float]


class Comparison(Struct, frozen=True):
    """What the strategies cost.

    policies: strategy → means.
    against_kuberl: failures under Leadsman / failures under kubeRL's rule, before and after the faults move.
    """

    settings: SimulationSettings
    first_seed: int
    seeds: int
    policies: Mapping[str, StrategyMeans]
    against_kuberl: Mapping[str, float]


RunJob = tuple[str, SimulationSettings, int]
Mapper = Callable[[Callable[[RunJob], RunResult], list[RunJob]], Iterable[RunResult]]
"""Maps as the built-in does; a process pool's map is one too."""


def compare(settings: SimulationSettings, first_seed: int, seeds: int, run: Mapper = map) -> Comparison:
    names = list(STRATEGIES)
    jobs = [(name, settings, seed) for seed in range(first_seed, first_seed + seeds) for name in names]
    results = list(run(run_job, jobs))
    policies = {name: mean_results(results[place :: len(names)]) for place, name in enumerate(names)}
    ours, theirs = policies["leadsman"], policies["kuberl"]
    against = {
        "before_move": ours.failures_per_1000 / theirs.failures_per_1000,
        "after_move": ours.failures_per_1000_after_move / theirs.failures_per_1000_after_move,
    }
    return Comparison(settings, first_seed, seeds, policies, against)


def run_job(job: RunJob) -> RunResult:
    return run_strategy(*job)


def mean_results(results: list[RunResult]) -> StrategyMeans:
    columns = {name: [getattr(each, name) for each in results] for name in RunResult.__struct_fields__}
    return StrategyMeans(
        **{name: fmean(values) for name, values in columns.items()},
        standard_errors={name: _standard_error(values) for name, values in columns.items()},
    )


def render(found: Comparison) -> str:
    """The comparison as a table."""
    settings = found.settings
    header = ["STRATEGY", "FAILURES/1000", "AFTER MOVE", "REPAIRED/FAIR", "JOINED/FAIR"]
    rows = [[name, *_cells(each)] for name, each in found.policies.items()]
    lines = [
        f"{found.seeds} seeds from {found.first_seed}; {settings.nodes} nodes, {settings.bad} bad",
        *align_columns([header, *rows]),
        f"failures, leadsman / kubeRL's rule: {found.against_kuberl['before_move']:.2f} before, "
        f"{found.against_kuberl['after_move']:.2f} after the faults moved",
        f"shares: of {settings.window} placements, {settings.settle} after the repair, "
        f"{settings.join_settle} after the join",
    ]
    return "\n".join(lines)


def _cells(mean: StrategyMeans) -> list[str]:
    errors = mean.standard_errors
    values = structs.asdict(mean)
    digits = {"failures_per_1000": 1, "failures_per_1000_after_move": 1}
    return [
        f"{values[name]:.{digits.get(name, 2)}f} ± {error:.{digits.get(name, 2)}f}" for name, error in errors.items()
    ]


def _standard_error(values: list[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
