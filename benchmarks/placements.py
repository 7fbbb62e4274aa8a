"""Places pods at random on networks whose every round trip is known, and counts broken bounds.

    python -m benchmarks.placements [--placements 100000] [--seed 1]

Every node measures 16 random others; the rest of the matrix is hidden, and estimated as the extender does. A placement
is a node that passes the delay filter for a random pod with one to three bounds. Each is checked by hand against the
reports and estimates that it was decided on, and each pair that was accepted on an estimate against the hidden truth.
An interval promises that the worse direction is beyond its upper end in 1 of 20 pairs; among the accepted it is more
where bounds, which are drawn from the hidden truth of the reference, are wide for those that estimates cannot tell.
Networks: measured ones (tests/data/rtt) and generated racks.
"""

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs, EstimateView
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import EstimateMode, Policy, Statistic
from leadsman.kube.names import DELAY_ANNOTATION, ESTIMATE_ANNOTATION
from leadsman.network.fitting import FitBudget
from leadsman.network.measured_pairs import Floats
from leadsman.runtime.text_table import align_columns
from leadsman.simulator.generated_cluster import rack_network, random_peers
from leadsman.sources.delay.fitted_estimates import fit_estimates, gather_measurements
from leadsman.state.records import Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

DATA = Path(__file__).parents[1] / "tests" / "data" / "rtt"
PEERS = 16
NOW = 100.0
MAX_CANDIDATES = 200
"""Nodes that one pod is asked about, at most."""


class PlacementTally(Struct):
    """Counts bounds. estimated: those that a placement keeps by an estimate. broken: against what was decided on.
    beyond, worse: of the estimated, those that the hidden truth from the reference breaks, and that the worse direction
    does."""

    network: str
    decisions: int = 0
    placements: int = 0
    broken: int = 0
    estimated: int = 0
    beyond: int = 0
    worse: int = 0

    @property
    def beyond_ratio(self) -> float:
        return self.beyond / max(1, self.estimated)

    @property
    def worse_ratio(self) -> float:
        return self.worse / max(1, self.estimated)


class KnownNetwork(NamedTuple):
    """A network with its true delays. truth_ms: rows are sources; NaN where nobody knows."""

    name: str
    names: Sequence[str]
    truth_ms: Floats
    facts: DecisionInputs


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--placements", type=int, default=100_000, help="in all, at least")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    show(tallies(chosen.placements, chosen.seed))


def tallies(placements: int, seed: int, budget: FitBudget | None = None) -> list[PlacementTally]:
    """Returns a tally of each network. budget: for the estimates."""
    made = dict(networks(seed))
    share = -(-placements // len(made))
    return [
        run_placements(known_network(name, rtt_ms, seed, budget), share, random.Random(seed))
        for name, rtt_ms in made.items()
    ]


def networks(seed: int) -> Iterator[tuple[str, Floats]]:
    """Yields networks in milliseconds, rows are sources; 0 off the diagonal: nobody measured it."""
    yield "planetlab_1", np.loadtxt(DATA / "planetlab_1.txt.gz")
    yield "seattle_1", np.loadtxt(DATA / "seattle_1.txt.gz") * 1000
    yield "racks", rack_network(3, 5, 16, np.random.default_rng(seed)).rtt_ms


def known_network(name: str, rtt_ms: Floats, seed: int, budget: FitBudget | None) -> KnownNetwork:
    """Returns what the extender would know: 16 reports a node, all fresh, and estimates fitted to them."""
    names = [f"node-{number:03}" for number in range(len(rtt_ms))]
    reported: dict[str, dict[str, PeerLatency]] = {node: {} for node in names}
    for one, other in zip(*random_peers(len(names), PEERS, np.random.default_rng(seed)), strict=True):
        reported[names[one]][names[other]] = window(float(rtt_ms[one, other]))
    snapshot = Snapshot(
        {node: NodeState(None, HEARTBEAT, Latency(windows), None, NOW) for node, windows in reported.items()}
    )
    estimates = fit_estimates(gather_measurements(snapshot, NOW, Statistic.P50), NOW, budget=budget)
    holes = (rtt_ms == 0) & ~np.eye(len(rtt_ms), dtype=bool)
    truth = np.where(holes, np.nan, rtt_ms)
    return KnownNetwork(name, names, truth, DecisionInputs(snapshot, Policy(), NOW, estimates=estimates))


HEARTBEAT = Heartbeat(epoch=1, seq=1, push_interval_seconds=5.0)


def window(rtt_ms: float) -> PeerLatency:
    """Makes a probe window; a hole in the data answers nothing."""
    return PeerLatency(30, 30, rtt_ms, rtt_ms, rtt_ms) if rtt_ms else PeerLatency(30, 0)


def run_placements(world: KnownNetwork, placements: int, rng: random.Random) -> PlacementTally:
    """Makes at least so many placements."""
    numbers = {name: number for number, name in enumerate(world.names)}
    tally = PlacementTally(world.name)
    while tally.placements < placements:
        bounds, use = random_bounds(world, rng), rng.choice(list(EstimateMode)[1:])
        nodes = rng.sample(world.names, min(MAX_CANDIDATES, len(world.names)))
        kept = filter_nodes(random_pod(bounds, use, rng), nodes, world.facts).kept
        tally.decisions += 1
        tally.placements += len(kept)
        for node in kept:
            for reference, ms in bounds.items():
                check(tally, world, use, node, reference, ms, numbers)
    return tally


def random_bounds(world: KnownNetwork, rng: random.Random) -> Mapping[str, float]:
    """Draws bounds, reference → ms, between what few and what most nodes can keep."""
    bounds = {}
    for number in rng.sample(range(len(world.names)), rng.choice([1, 1, 2, 3])):
        row = world.truth_ms[number]
        bounds[world.names[number]] = round(float(np.nanquantile(row, rng.uniform(0.05, 0.95))), 3)
    return bounds


def random_pod(bounds: Mapping[str, float], use: EstimateMode, rng: random.Random) -> PodInfo:
    """Makes a pod that has each bound as a label or as a line."""
    written = {reference: f"{ms:.3f}" for reference, ms in bounds.items()}
    labels = {f"delay_{reference}": ms for reference, ms in written.items() if rng.random() < 0.5}
    lines = [f"node/{reference}: {ms}" for reference, ms in written.items() if f"delay_{reference}" not in labels]
    return PodInfo(
        "default",
        "pod",
        labels=labels,
        annotations={DELAY_ANNOTATION: "\n".join(lines), ESTIMATE_ANNOTATION: use.value},
    )


def check(
    tally: PlacementTally,
    world: KnownNetwork,
    use: EstimateMode,
    node: str,
    reference: str,
    ms: float,
    numbers: Mapping[str, int],
) -> None:
    """Checks one bound of one placement, from the records alone."""
    if node == reference:
        return
    reports = [*reported(world, reference, node), *reported(world, node, reference)]
    values = [rtt_ms for rtt_ms in reports if rtt_ms is not None]
    if values or reports:
        tally.broken += not values or max(values) > ms
        return
    high_ms = highest(world, reference, node)
    tally.broken += use is EstimateMode.REJECT or high_ms is None or high_ms > ms
    one, other = numbers[reference], numbers[node]
    if not np.isnan(world.truth_ms[one, other]):
        tally.estimated += 1
        tally.beyond += bool(world.truth_ms[one, other] > ms)
        tally.worse += bool(np.fmax(world.truth_ms[one, other], world.truth_ms[other, one]) > ms)


def reported(world: KnownNetwork, reporter: str, peer: str) -> Iterator[float | None]:
    """Yields the reporter's value, None when no reply came; nothing when it did not measure the peer."""
    latency = world.facts.snapshot.nodes[reporter].latency
    if latency and peer in latency.peers:
        yield latency.peers[peer].p50_ms


def highest(world: KnownNetwork, reference: str, node: str) -> float | None:
    estimates: EstimateView | None = world.facts.estimates
    row = world.facts.views.lasting.once(("checked", reference), lambda: table(estimates, reference), estimates)
    return row.get(node)


def table(estimates: EstimateView | None, reference: str) -> Mapping[str, float]:
    row = estimates.row(reference) if estimates else None
    return dict(zip(row.nodes, row.high_ms, strict=True)) if row else {}


def show(found: Sequence[PlacementTally]) -> None:
    rows: list[tuple[str, ...]] = [
        (
            "NETWORK",
            "DECISIONS",
            "PLACEMENTS",
            "BROKEN",
            "BY ESTIMATE",
            "BEYOND TRUTH (0.1 PROMISED)",
            "WORSE DIRECTION",
        )
    ]
    for each in found:
        counts = (each.decisions, each.placements, each.broken, each.estimated)
        rows.append((each.network, *map(str, counts), f"{each.beyond_ratio:.4f}", f"{each.worse_ratio:.4f}"))
    print("\n".join(align_columns(rows)))


if __name__ == "__main__":
    main()
