"""Runs every strategy on many seeds: means with their standard errors, as data and as a table."""

from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from statistics import fmean, stdev

from msgspec import Struct, structs

from leadsman.runtime.text_table import align_columns
from leadsman.simulator.rewards.cluster import SimulationSettings
from leadsman.simulator.rewards.strategies import STRATEGIES
from leadsman.simulator.rewards.strategy_run import RunResult, run_strategy

TARGET_RATIO, NEAR_TARGET_RATIO = 0.9, 0.85


class StrategyMeans(Struct, frozen=True):
    """Means of one strategy over all seeds. standard_errors: of the five numbers, by name."""

    failures_per_1000: float
    failures_per_1000_after_move: float
    effective_nodes_after_move: float
    repaired_share_of_fair: float
    joined_share_of_fair: float
    standard_errors: Mapping[str, float]


class PhaseRatios(Struct, frozen=True):
    """Failures / failures under kubeRL's rule, before and after the faults move."""

    before_move: float
    after_move: float


class Comparison(Struct, frozen=True):
    """What the strategies cost.

    policies: strategy → means.
    against_kuberl: strategy → its failures as a multiple of kubeRL's.
    """

    settings: SimulationSettings
    first_seed: int
    seeds: int
    policies: Mapping[str, StrategyMeans]
    against_kuberl: Mapping[str, PhaseRatios]


RunJob = tuple[str, SimulationSettings, int]
Mapper = Callable[[Callable[[RunJob], RunResult], list[RunJob]], Iterable[RunResult]]
"""Maps as the built-in does; a process pool's map is one too."""


def compare(settings: SimulationSettings, first_seed: int, seeds: int, run: Mapper = map) -> Comparison:
    names = list(STRATEGIES)
    jobs = [(name, settings, seed) for seed in range(first_seed, first_seed + seeds) for name in names]
    results = list(run(run_job, jobs))
    policies = {name: mean_results(results[place :: len(names)]) for place, name in enumerate(names)}
    against_kuberl = {name: _against(each, policies["kuberl"]) for name, each in policies.items()}
    return Comparison(settings, first_seed, seeds, policies, against_kuberl)


def _against(ours: StrategyMeans, theirs: StrategyMeans) -> PhaseRatios:
    return PhaseRatios(
        _ratio(ours.failures_per_1000, theirs.failures_per_1000),
        _ratio(ours.failures_per_1000_after_move, theirs.failures_per_1000_after_move),
    )


def _ratio(ours: float, theirs: float) -> float:
    """NaN where nothing failed under theirs."""
    return ours / theirs if theirs else float("nan")


def target_ratio(best_ratio: float) -> float:
    """What ours is to reach: 0.9, and half-way to the best possible where that is above 0.85."""
    return TARGET_RATIO if best_ratio <= NEAR_TARGET_RATIO else (1.0 + best_ratio) / 2.0


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
    header = ["STRATEGY", "FAILURES/1000", "AFTER MOVE", "NODES AFTER IT", "REPAIRED/FAIR", "JOINED/FAIR"]
    rows = [[name, *_cells(each)] for name, each in found.policies.items()]
    lines = [
        f"{found.seeds} seeds from {found.first_seed}; {settings.nodes} nodes, {settings.bad} bad ({settings.fault}); "
        f"{settings.types} pod types, {settings.bad_types} bad everywhere; {settings.placements} placements a phase",
        *align_columns([header, *rows]),
        _verdict("before the faults move", {name: each.before_move for name, each in found.against_kuberl.items()}),
        _verdict("after it", {name: each.after_move for name, each in found.against_kuberl.items()}),
        "nodes: as many, with equal numbers of pods, would be as spread as those that took the pods after the move",
        f"shares: of {settings.window} placements, {settings.settle} after the repair, "
        f"{settings.join_settle} after the join",
    ]
    return "\n".join(lines)


def _verdict(phase: str, ratios: Mapping[str, float]) -> str:
    """Whether ours reaches the target, where the best is the oracle, and where it is the best that a learner can do."""
    ours = ratios["leadsman"]
    against = [
        f"{name} {ratios[name]:.2f}, so target {target:.2f} {'met' if ours <= target else 'NOT met'}"
        for name in ("oracle", "best-learner")
        for target in (target_ratio(ratios[name]),)
    ]
    return f"failures / kubeRL's {phase}: leadsman {ours:.3f}; {'; '.join(against)}"


def _cells(mean: StrategyMeans) -> list[str]:
    errors = mean.standard_errors
    values = structs.asdict(mean)
    digits = {"failures_per_1000": 1, "failures_per_1000_after_move": 1, "effective_nodes_after_move": 1}
    return [
        f"{values[name]:.{digits.get(name, 2)}f} ± {error:.{digits.get(name, 2)}f}" for name, error in errors.items()
    ]


def _standard_error(values: list[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
