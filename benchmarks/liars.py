"""Compares rules for a delay that one node alone reports: what each costs honest nodes, and what a liar gains by it.

    python -m benchmarks.liars [--k 16] [--liars 6] [--seed N] [--network NAME [NAME ...]] [--json]

Every node measures k random others. Honest: of the reports that one end alone makes, the share that is not believed,
and the share of bounds refused that hold, drawn from the truth to twice it. Liar: a node that says it is 0.001 ms from
256 others; then one that knows each limit and says just that. Kept: the share under a bound of half of the truth. Gain:
truth divided by what is decided by, median; above 1 the liar looks nearer than it is. Each fit is of one liar.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.placements import NETWORKS, networks
from leadsman.decision.policy import Statistic
from leadsman.network.fitting import FitBudget
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.network.plausibility import place_by_others
from leadsman.network.synthetic_network import random_peers
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates
from leadsman.sources.delay.measurements import Measurements, gather_measurements
from leadsman.state.records import Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

NEAR_MS, CLAIMS = 0.001, 256
BUDGET = FitBudget(members=8, steps=300, landmarks=64, calibration_rounds=2)


class Reading(NamedTuple):
    """What a rule makes of reports: by how much a score goes, and what a bound is held to. Milliseconds."""

    rtt_ms: Floats
    high_ms: Floats


class Pairs(NamedTuple):
    """Pairs that one end alone reports, with what the estimates say of them."""

    reported_ms: Floats
    truth_ms: Floats
    estimated_ms: Floats
    high_ms: Floats
    expected_ms: Floats
    lowest_ms: Floats


Rule = Callable[[Pairs], Reading]


def believed(pairs: Pairs) -> Reading:
    return Reading(pairs.reported_ms, pairs.reported_ms)


def larger(pairs: Pairs) -> Reading:
    larger_ms = np.maximum(pairs.reported_ms, pairs.expected_ms)
    return Reading(larger_ms, larger_ms)


def limited(pairs: Pairs, otherwise: Rule = believed) -> Reading:
    held, believed_ms = pairs.reported_ms < pairs.lowest_ms, otherwise(pairs).rtt_ms
    return Reading(np.where(held, pairs.estimated_ms, believed_ms), np.where(held, pairs.high_ms, believed_ms))


def limited_and_larger(pairs: Pairs) -> Reading:
    return limited(pairs, larger)


RULES: dict[str, tuple[Rule, float]] = {
    "as reported": (believed, 0.9),
    "no less than others say": (larger, 0.9),
    "limit of 3 in 4 reporters": (limited, 0.75),
    "limit of 9 in 10 reporters": (limited, 0.9),
    "both: 9 in 10, no less": (limited_and_larger, 0.9),
    "limit of 19 in 20 reporters": (limited, 0.95),
}


class Row(NamedTuple):
    network: str
    rule: str
    limit_ratio: float
    honest_held: float
    valid_refused: float
    liar_kept: float
    liar_gain: float
    knowing_kept: float
    knowing_gain: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--k", type=int, default=16, help="peers that each node measures")
    options.add_argument("--liars", type=int, default=6, help="one after the other")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--network", nargs="+", choices=NETWORKS, default=NETWORKS)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    rows = [
        row
        for name, rtt_ms in networks(chosen.seed)
        if name in chosen.network
        for row in compared(name, rtt_ms, chosen.k, chosen.liars, np.random.default_rng(chosen.seed))
    ]
    if chosen.json:
        print(json.dumps([row._asdict() for row in rows]))
        return
    print(*(name.ljust(30 if name == "rule" else 15) for name in Row._fields), sep="")
    for row in rows:
        shown = (f"{value:.3f}".ljust(15) for value in row[2:])
        print(row.network.ljust(15), row.rule.ljust(30), *shown, sep="")


def compared(name: str, rtt_ms: Floats, k: int, liars: int, rng: np.random.Generator) -> Iterator[Row]:
    one, other = random_peers(len(rtt_ms), k, rng)
    reports = {
        node: dict(zip(other[one == node].tolist(), rtt_ms[node, other[one == node]].tolist(), strict=True))
        for node in range(len(rtt_ms))
    }
    honest = fitted(reports)
    lied = []
    for liar in rng.permutation(len(rtt_ms))[:liars].tolist():
        others = rng.permutation(np.delete(np.arange(len(rtt_ms)), liar))[:CLAIMS].tolist()
        lied.append((liar, fitted(reports | {liar: dict.fromkeys(others, NEAR_MS)})))
    for rule, (read, share) in RULES.items():
        pairs = honest_pairs(honest, rtt_ms, share)
        bound_ms = pairs.truth_ms * np.random.default_rng(0).uniform(1, 2, len(pairs.truth_ms))
        claims = [claimed_pairs(fit, liar, rtt_ms, share) for liar, fit in lied]
        claim = Pairs(*(np.concatenate(column) for column in zip(*claims, strict=True)))
        knowing = claim._replace(reported_ms=np.maximum(NEAR_MS, claim.lowest_ms))
        yield Row(
            name,
            rule,
            float(np.median(pairs.expected_ms / pairs.lowest_ms)),
            float((pairs.reported_ms < pairs.lowest_ms).mean()) if "in" in rule else 0.0,
            float((read(pairs).high_ms > bound_ms).mean()),
            *(
                value
                for each in (claim, knowing)
                for value in (
                    float((read(each).high_ms <= each.truth_ms / 2).mean()),
                    float(np.median(each.truth_ms / read(each).rtt_ms)),
                )
            ),
        )


def fitted(reports: dict[int, dict[int, float]]) -> FittedEstimates:
    return fit_estimates(measured(reports), 0.0, budget=BUDGET)


def measured(reports: dict[int, dict[int, float]]) -> Measurements:
    states = {}
    for node, peers in reports.items():
        windows = {f"{peer:03}": PeerLatency(9, 9, p50_ms=ms, p95_ms=ms, min_ms=ms) for peer, ms in peers.items() if ms}
        states[f"{node:03}"] = NodeState(heartbeat=Heartbeat(1, 1, 5.0), latency=Latency(windows), changed_at=0.0)
    return gather_measurements(Snapshot(states), 1.0, Statistic.P50)


def honest_pairs(fit: FittedEstimates, rtt_ms: Floats, share: float) -> Pairs:
    alone = np.isnan(fit.measured.reports.by_other_end())
    return selected(fit, fit.measured.source[alone], fit.measured.target[alone], rtt_ms, share)


def claimed_pairs(fit: FittedEstimates, liar: int, rtt_ms: Floats, share: float) -> Pairs:
    alone = np.isnan(fit.measured.reports.by_other_end()) & (fit.measured.source == liar)
    return selected(fit, fit.measured.source[alone], fit.measured.target[alone], rtt_ms, share)


def selected(fit: FittedEstimates, one: Indices, other: Indices, rtt_ms: Floats, share: float) -> Pairs:
    """Every node is in the fit, so numbers are the matrix's."""
    places = place_by_others(fit.estimates.model.members, fit.measured.reports, share)
    predictors = fit.estimates.model.at(one, other)
    _, middle, high = (np.exp(predictors.log_ms + offset) for offset in fit.estimates.calibration.offsets(predictors))
    expected_ms, lowest_ms = np.empty((2, len(one)))
    for node in np.unique(one).tolist():
        expected_ms[one == node], lowest_ms[one == node] = (row[other[one == node]] for row in places.row(node))
    slot = {
        (a, b): ms
        for a, b, ms in zip(
            fit.measured.source.tolist(), fit.measured.target.tolist(), fit.measured.rtt_ms.tolist(), strict=True
        )
    }
    reported_ms = np.array([slot[pair] for pair in zip(one.tolist(), other.tolist(), strict=True)])
    truth_ms = np.where(rtt_ms[one, other] > 0, rtt_ms[one, other], np.nan)
    there = ~np.isnan(truth_ms) & (lowest_ms > 0)
    return Pairs(*(column[there] for column in (reported_ms, truth_ms, middle, high, expected_ms, lowest_ms)))


if __name__ == "__main__":
    main()
