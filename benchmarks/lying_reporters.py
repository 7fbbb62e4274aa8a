"""What k liars among the n reporters of a node make of its links: what decisions go by then, and did before.

    python -m benchmarks.lying_reporters [--reporters N [N ...]] [--liars K [K ...]] [--nodes 120] [--cases 24]
        [--network NAME [NAME ...]] [--seed N [N ...]] [--json]

Every node measures 16 random others, but some targets are measured by n nodes each. Of these k say the same lie of it:
0.001 ms, 1 s, a quarter, four times, or as far off as 9 in 10 honest nodes never are, which is the honest spread.
Errors and moves are logarithms in such spreads, of 9 in 10 of a target's links to nodes that do not lie.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.liars import BUDGET, NEAR_MS
from benchmarks.placements import HEARTBEAT, NETWORKS, NOW, networks, window
from leadsman.decision.delay.bounds import DelayBound
from leadsman.decision.delay.evaluation import evaluate
from leadsman.decision.delay.targets import Target
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy, Statistic
from leadsman.network.measured_pairs import Floats
from leadsman.network.synthetic_network import random_peers
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates
from leadsman.sources.delay.measurements import gather_measurements
from leadsman.state.records import Latency
from leadsman.state.snapshot import NodeState, Snapshot

K, FAR_MS = 16, 1000.0
LIARS_A_FIT = 4
"""At most, of all targets together, so that a case stays one of few liars."""

Reports = dict[int, dict[int, float]]
"""Reporter → target → milliseconds."""


class Lie(NamedTuple):
    """What is said of a round trip: so many times the truth, at least and at most so much."""

    factor: float
    least_ms: float = NEAR_MS
    most_ms: float = FAR_MS

    def of(self, rtt_ms: float) -> float:
        return min(max(rtt_ms * self.factor, self.least_ms), self.most_ms)


class Case(NamedTuple):
    """Of 9 in 10 links, as logarithms in honest spreads.

    honest, lied: the error of what counts, without the lie and with it. moved: the one beside the other; nearer,
    farther: what counts is that much less, that much more.
    """

    honest: float
    lied: float
    moved: float
    nearer: float
    farther: float


class Row(NamedTuple):
    """spread_ratio: the honest spread as a factor, the median of the seeds. within: the share of the cases whose links
    moved by no more than it. What follows is of the median case and of the worst."""

    network: str
    spread_ratio: float
    reporters: int
    liars: int
    cases: int
    within: float
    honest: float
    honest_worst: float
    lied: float
    lied_worst: float
    moved: float
    moved_worst: float
    nearer: float
    nearer_worst: float
    farther: float
    farther_worst: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--reporters", type=int, nargs="+", default=[3, 4, 6, 8, 16])
    options.add_argument("--liars", type=int, nargs="+", default=[1, 2, 3], help="less than half of the reporters")
    options.add_argument("--nodes", type=int, default=120, help="of each network, drawn at random")
    options.add_argument("--cases", type=int, default=24, help="of a seed: a target and a lie each")
    options.add_argument("--network", nargs="+", choices=NETWORKS, default=NETWORKS)
    options.add_argument("--seed", type=int, nargs="+", default=[1], help="the cases of all count together")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    cases: dict[tuple[str, int, int], list[Case]] = {}
    spreads: dict[str, list[float]] = {}
    for seed in chosen.seed:
        for network, rtt_ms in networks(seed):
            if network in chosen.network:
                some = np.random.default_rng(seed).permutation(len(rtt_ms))[: chosen.nodes]
                spread = add_cases(cases, network, rtt_ms[np.ix_(some, some)], chosen, np.random.default_rng(seed))
                spreads.setdefault(network, []).append(spread)
    rows = [row(*of, float(np.exp(np.median(spreads[of[0]]))), found) for of, found in sorted(cases.items())]
    if chosen.json:
        print(json.dumps([one._asdict() for one in rows]))
        return
    print(*(field.ljust(14) for field in Row._fields), sep="")
    for one in rows:
        print(*((f"{value:.2f}" if isinstance(value, float) else str(value)).ljust(14) for value in one), sep="")


def add_cases(
    cases: dict[tuple[str, int, int], list[Case]],
    network: str,
    rtt_ms: Floats,
    chosen: argparse.Namespace,
    rng: np.random.Generator,
) -> float:
    """By network, reporters and liars. The honest spread, as a logarithm."""
    reports = random_reports(rtt_ms, rng)
    limits = fit(snapshot_of(reports)).plausibility
    spread = max(limits.highest, -limits.lowest)
    for reporters in chosen.reporters:
        for liars in (count for count in chosen.liars if 2 * count < reporters):
            found = list[Case]()
            while len(found) < chosen.cases:
                found += lied_about(reports, rtt_ms, reporters, liars, spread, rng)
            cases.setdefault((network, reporters, liars), []).extend(found)
    return spread


def row(network: str, reporters: int, liars: int, spread_ratio: float, cases: Sequence[Case]) -> Row:
    each = np.array(cases)
    within = float((each[:, Case._fields.index("moved")] <= 1).mean())
    of_cases = zip(np.median(each, axis=0).tolist(), each.max(axis=0).tolist(), strict=True)
    return Row(
        network, spread_ratio, reporters, liars, len(cases), within, *(value for pair in of_cases for value in pair)
    )


def random_reports(rtt_ms: Floats, rng: np.random.Generator) -> Reports:
    reports: Reports = {node: {} for node in range(len(rtt_ms))}
    for one, other in zip(*(each.tolist() for each in random_peers(len(rtt_ms), K, rng)), strict=True):
        reports[one][other] = float(rtt_ms[one, other])
    return reports


def lied_about(
    reports: Reports, rtt_ms: Floats, reporters: int, liars: int, spread: float, rng: np.random.Generator
) -> Iterator[Case]:
    """Some targets, each lie about all of them."""
    nodes = rng.permutation(len(rtt_ms)).tolist()
    targets, others = nodes[: LIARS_A_FIT // liars], nodes[LIARS_A_FIT // liars :]
    honest = {one: {other: ms for other, ms in of.items() if other not in targets} for one, of in reports.items()}
    liars_of = dict[int, list[int]]()
    for target in targets:
        able = [one for one in rng.permutation(others).tolist() if rtt_ms[one, target] > 0]
        for one in able[:reporters]:
            honest[one][target] = float(rtt_ms[one, target])
        liars_of[target] = able[:liars]
    before = decision_inputs(honest)
    for lie in (Lie(0), Lie(1 / 4), Lie(np.exp(-spread)), Lie(np.exp(spread)), Lie(4), Lie(1e9)):
        lied = {one: dict(of) for one, of in honest.items()}
        for target, some in liars_of.items():
            lied |= {one: lied[one] | {target: lie.of(lied[one][target])} for one in some}
        after = decision_inputs(lied)
        for target, some in liars_of.items():
            truth_ms = np.delete(rtt_ms[target], [target, *some])
            before_ms, after_ms = (np.delete(what_counts(target, each), [target, *some]) for each in (before, after))
            there = (truth_ms > 0) & (before_ms > 0) & (after_ms > 0)
            truth, before_log, after_log = (np.log(each[there]) for each in (truth_ms, before_ms, after_ms))
            moved = after_log - before_log
            of = (np.abs(before_log - truth), np.abs(after_log - truth), np.abs(moved), -moved, moved)
            yield Case(*(max(0.0, float(np.quantile(each, 0.9))) / spread for each in of))


def decision_inputs(reports: Reports) -> DecisionInputs:
    """What the extender decides on, with these reports and estimates fitted to them."""
    snapshot = snapshot_of(reports)
    return DecisionInputs(snapshot, Policy(), NOW, estimates=fit(snapshot))


def snapshot_of(reports: Reports) -> Snapshot:
    states = dict[str, NodeState]()
    for node, peers in reports.items():
        windows = {name(peer): window(ms) for peer, ms in peers.items()}
        states[name(node)] = NodeState(None, HEARTBEAT, Latency(windows), None, NOW)
    return Snapshot(states)


def fit(snapshot: Snapshot) -> FittedEstimates:
    return fit_estimates(gather_measurements(snapshot, NOW, Statistic.P50), NOW, budget=BUDGET)


def name(node: int) -> str:
    return f"{node:03}"


def what_counts(node: int, inputs: DecisionInputs) -> Floats:
    """The round trip that decisions go by between this node and each, in ms."""
    found = evaluate(DelayBound(name(node), 1.0), Target(name(node), (name(node),)), inputs)
    return found.rtt_ms[found.index.positions([name(other) for other in range(len(inputs.snapshot.nodes))])]


if __name__ == "__main__":
    main()
