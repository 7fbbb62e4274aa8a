"""How much faster pods of a type run with an accelerator: gain = median run time without / with.

From the run times that agents keep with rewards: a node's geometric mean of its Jobs' run times, weighted by how many
it saw. A side's median is over its nodes; the interval is of the ratio of both, from how far nodes of one side differ.
"""

from collections.abc import Iterable, Mapping, Set
from math import exp, sqrt

from msgspec import Struct

from leadsman.state.snapshot import AgedReward

RUN_SECONDS_QUALITY = "run_seconds"
"""As agent.pods.incident_ledger names it."""

_Z_90 = 1.645
_LEAST_SPREAD = 0.1
"""Of ln(run time): two nodes that agree by chance prove no more."""


class RunTimes(Struct, frozen=True):
    """One side. median_seconds: None without a sample."""

    median_seconds: float | None
    samples: float
    squared_error: float = 0.0


class Gain(Struct, frozen=True):
    """ratio: median run time without / with; None: one side has no sample. low, high: its 90 % interval."""

    with_samples: float
    without_samples: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def estimate_gain(rewards: Mapping[str, AgedReward], accelerated: Set[str]) -> Gain:
    """Of one pod type. accelerated: the nodes that have an accelerator."""
    known = {node: each.reward.qualities.get(RUN_SECONDS_QUALITY) for node, each in rewards.items()}
    costs = {node: (each.log_cost, each.samples) for node, each in known.items() if each is not None}
    having = _run_times(cost for node, cost in costs.items() if node in accelerated)
    lacking = _run_times(cost for node, cost in costs.items() if node not in accelerated)
    if having.median_seconds is None or lacking.median_seconds is None:
        return Gain(having.samples, lacking.samples)
    ratio = lacking.median_seconds / having.median_seconds
    error = exp(_Z_90 * sqrt(having.squared_error + lacking.squared_error))
    return Gain(having.samples, lacking.samples, ratio, ratio / error, ratio * error)


def _run_times(costs: Iterable[tuple[float, float]]) -> RunTimes:
    """costs: ln(seconds) and samples of each node."""
    ranked = sorted(costs)
    total = sum(samples for _, samples in ranked)
    if not total:
        return RunTimes(None, 0.0)
    median, below = ranked[-1][0], 0.0
    for log_seconds, samples in ranked:
        below += samples
        if below >= total / 2:
            median = log_seconds
            break
    mean = sum(log_seconds * samples for log_seconds, samples in ranked) / total
    spread = sum(samples * (log_seconds - mean) ** 2 for log_seconds, samples in ranked) / total
    return RunTimes(exp(median), total, max(spread, _LEAST_SPREAD**2) / total)


def gain_text(gain: Gain) -> str:
    """`gain 2.1 (1.8 to 2.4; 30 runs with, 25 without)`."""
    counts = f"{gain.with_samples:.0f} runs with, {gain.without_samples:.0f} without"
    if gain.ratio is None or gain.low is None or gain.high is None:
        return f"gain unknown ({counts})"
    return f"gain {gain.ratio:.2f} ({gain.low:.2f} to {gain.high:.2f}; {counts})"
