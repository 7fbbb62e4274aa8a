"""How much of a metric's order the scores of scheduleonmetric keep: `python -m benchmarks.telemetry_scores`.

Of all pairs of nodes with different values, the share that get the same score: no scheduler can tell those apart. With
ten scores it is 10 % or so at best. `clipped` is `proportional` on values cut to the 5th and the 95th percentile, the
choice that was not made (docs/decisions/0018-scores-by-rank.md). The mean of 20 seeds.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import mean

from leadsman.decision.decide import score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.model import PolledMetrics, Readings, TasPolicies, TelemetryInputs
from leadsman.decision.telemetry.taspolicy import Operator, Rule, Scoring, Strategy, TasPolicy
from leadsman.kube.names import POLICY_LABEL
from leadsman.kube.quantity import NANO
from leadsman.runtime import text_table
from leadsman.state.snapshot import Snapshot

SIZES = (4, 10, 100, 1_000)
SEEDS = range(20)


def uniform(count: int, rng: random.Random) -> list[int]:
    return [rng.randrange(NANO) for _ in range(count)]


def one_outlier(count: int, rng: random.Random) -> list[int]:
    """As uniform, and one node at a thousand times as much."""
    return [*uniform(count - 1, rng), 1_000 * NANO]


def heavy_tail(count: int, rng: random.Random) -> list[int]:
    """Pareto with exponent 1: the largest is about as much as half of the sum."""
    return [int(NANO * rng.paretovariate(1.0)) for _ in range(count)]


def ties(count: int, rng: random.Random) -> list[int]:
    """Most nodes idle, at 0; a fifth of them at one of eight values that double."""
    return [0 if rng.random() < 0.8 else NANO * 2 ** rng.randrange(8) for _ in range(count)]


DISTRIBUTIONS: Mapping[str, Callable[[int, random.Random], list[int]]] = {
    "uniform": uniform,
    "one outlier": one_outlier,
    "heavy tail": heavy_tail,
    "ties": ties,
}


def scores(values: Sequence[int], scoring: Scoring) -> list[int]:
    """What a pod that asks for the least of the metric gets for nodes with these values."""
    nodes = tuple(f"node-{number}" for number in range(len(values)))
    strategy = Strategy((Rule("m", Operator.LESS_THAN),), scoring=scoring)
    policy = TasPolicy("ns", "p", scheduleonmetric=strategy)
    table = PolledMetrics({"m": Readings(dict(zip(nodes, values, strict=True)))})
    telemetry = TelemetryInputs(TasPolicies({policy.key: policy}, loaded=True), (table,))
    inputs = DecisionInputs(Snapshot(), Policy(), 0.0, telemetry=telemetry)
    found = score_nodes(PodInfo("ns", "pod", labels={POLICY_LABEL: "p"}), nodes, inputs).scores
    return [found[node] for node in nodes]


def clipped(values: Sequence[int]) -> list[int]:
    ordered = sorted(values)
    low, high = ordered[int(0.05 * (len(values) - 1))], ordered[int(0.95 * (len(values) - 1))]
    return [min(max(value, low), high) for value in values]


def equal_pairs_ratio(values: Sequence[int], found: Sequence[int]) -> float:
    """Of the pairs with different values, those with the same score. 0 when all values are one."""
    different = _pairs(len(values)) - sum(map(_pairs, Counter(values).values()))
    alike = sum(map(_pairs, Counter(found).values()))
    alike_and_equal = sum(map(_pairs, Counter(zip(values, found, strict=True)).values()))
    return (alike - alike_and_equal) / different if different else 0.0


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


SCORINGS: Mapping[str, Callable[[Sequence[int]], list[int]]] = {
    "proportional": lambda values: scores(values, Scoring.PROPORTIONAL),
    "clipped": lambda values: scores(clipped(values), Scoring.PROPORTIONAL),
    "rank": lambda values: scores(values, Scoring.RANK),
}


def mean_ratio(distribution: str, count: int, scoring: str) -> float:
    """The equal pairs' ratio, over the seeds."""
    samples = [DISTRIBUTIONS[distribution](count, random.Random(seed)) for seed in SEEDS]
    return mean(equal_pairs_ratio(values, SCORINGS[scoring](values)) for values in samples)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.telemetry_scores")
    parser.add_argument("--json", action="store_true")
    found = {case: mean_ratio(*case) for case in product(DISTRIBUTIONS, SIZES, SCORINGS)}
    if parser.parse_args().json:
        keys = ("metric", "nodes", "scoring", "equal_pairs_ratio")
        print(json.dumps([dict(zip(keys, (*case, ratio), strict=True)) for case, ratio in found.items()]))
        return
    rows = [["METRIC", "NODES", *(f"{scoring} %" for scoring in SCORINGS)]]
    for name, count in product(DISTRIBUTIONS, SIZES):
        rows.append([name, str(count), *(f"{100 * found[name, count, scoring]:.1f}" for scoring in SCORINGS)])
    print("\n".join(text_table.align_columns(rows)))


if __name__ == "__main__":
    main()
