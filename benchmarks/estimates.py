"""Measures how well unmeasured pairs are estimated: `python -m benchmarks.estimates [--seeds 5] [NETWORK …]`

Every node measures the 16 others that its agent chooses over the network, by the agent's own code on a virtual clock;
all other pairs are held out. Where an earlier slice of the network is known, eight sets before it were measured, four
minutes apart, the time in which agents replace their random peers; what is not measured any more is remembered, as a
reader does (some four minutes of CPU a seed). `breaks` is what decisions make of the estimates: a bound accepts a pair
whose interval's upper end is not above it, and the slower direction breaks it. Bounds are 19 quantiles of all true
round trips (any), as one that many pods have, or of those to the pair's first node (own): then a bound is wide where
the hidden truth is, and more are broken. Each figure is the median of the seeds.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from leadsman.network.fitting import fit_network
from leadsman.network.former_pairs import former_pairs
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs, build_pairs, usable_mask
from leadsman.runtime.text_table import align_columns
from leadsman.simulator.generated_cluster import rack_network
from leadsman.sources.delay.fitted_estimates import MAX_REMEMBERED_SETS
from tests.holdout import held_out_pairs, measure_accuracy
from tests.simulated_agents import ProbingSimulation

DATA = Path(__file__).parents[1] / "tests" / "data" / "rtt"
PEERS = 16
BOUNDS = np.linspace(0.05, 0.95, 19)
"""Quantiles of true round trips, which are tried as bounds."""


SETTLE_SECONDS = 300.0
"""By then peers change no more than ever after: random ones in turn, near ones seldom."""
RANDOM_TURN_SECONDS = 240.0
"""The time in which an agent with 16 peers has replaced each random one."""


class RttNetwork(NamedTuple):
    """A network with known round trips. groups: racks and zones, where known. before: earlier slices, newest first."""

    rtt_ms: Floats
    groups: tuple[Indices, ...] = ()
    before: tuple[Floats, ...] = ()


def racks(seed: int, *, grouped: bool) -> RttNetwork:
    made = rack_network(3, 10, 16, np.random.default_rng(seed))
    return RttNetwork(made.rtt_ms, (made.rack, made.zone) if grouped else ())


def seattle(path: Path = DATA / "seattle_1.txt.gz") -> Floats:
    rtt_ms: Floats = np.loadtxt(path) * 1000
    return rtt_ms


NETWORKS: dict[str, Callable[[int], RttNetwork]] = {
    "racks": lambda seed: racks(seed, grouped=False),
    "racks-known": lambda seed: racks(seed, grouped=True),
    "planetlab": lambda _: RttNetwork(np.loadtxt(DATA / "planetlab_1.txt.gz")),
    "seattle": lambda _: RttNetwork(seattle()),
}


class Measured(NamedTuple):
    """What one run measured. Errors are relative; the others but for fit_seconds are shares of pairs."""

    median_error: float
    p90_error: float
    interval_holds: float
    any_bound_broken: float
    own_bound_broken: float
    fit_seconds: float


class KnownNetwork:
    """A ProbedNetwork of a matrix of milliseconds, sources as rows; 0 and NaN: no reply."""

    def __init__(self, rtt_ms: Floats) -> None:
        self.names = [f"node-{number:04}" for number in range(len(rtt_ms))]
        self._rtt_ms, self._number = rtt_ms, {name: number for number, name in enumerate(self.names)}

    def rtt_ms(self, one: str, other: str) -> float:
        found = float(self._rtt_ms[self._number[one], self._number[other]])
        return found if found > 0 else float("nan")

    def zone(self, name: str) -> str:
        return ""


class ProbedPairs(NamedTuple):
    """Who probes whom: source[k] → target[k]."""

    source: Indices
    target: Indices

    def measured(self, rtt_ms: Floats) -> MeasuredPairs:
        """What they measure in this network."""
        return build_pairs(len(rtt_ms), self.source, self.target, rtt_ms[self.source, self.target])


async def agents_peers(rtt_ms: Floats, k: int, seed: int, moments: int = 1) -> Sequence[ProbedPairs]:
    """The peers of all agents at so many moments, RANDOM_TURN_SECONDS apart, the last first."""
    network = KnownNetwork(rtt_ms)
    world = ProbingSimulation(network, k, seed)
    for name in network.names:
        world.join(name, 5.0)
    found = []
    for moment in range(moments):
        await world.run(SETTLE_SECONDS + moment * RANDOM_TURN_SECONDS)
        peers = [[network.names.index(peer) for peer in world.agents[name].measured_peers()] for name in network.names]
        source = np.repeat(np.arange(len(peers)), [len(each) for each in peers])
        found.append(ProbedPairs(source, np.array([peer for each in peers for peer in each], np.intp)))
    return found[::-1]


def measure(network: RttNetwork, seed: int) -> Measured:
    rng = np.random.default_rng(seed)
    slices = (network.rtt_ms, *network.before)
    chosen = asyncio.run(agents_peers(network.rtt_ms, PEERS, seed, len(slices)))
    seen, *before = [probed.measured(rtt_ms) for probed, rtt_ms in zip(chosen, slices, strict=True)]
    one, other = held_out_pairs(network.rtt_ms, seen)
    began = time.perf_counter()
    estimates = fit_network(seen, rng, network.groups, former=former_pairs(before, seen))
    seconds = time.perf_counter() - began
    truth = network.rtt_ms[one, other]
    slower = np.fmax(truth, network.rtt_ms[other, one])
    known_ms = np.where(usable_mask(network.rtt_ms), network.rtt_ms, np.nan)
    table = estimates.between(one, other)
    return Measured(
        *measure_accuracy(*table[:3], truth),
        broken_share(np.nanquantile(known_ms, BOUNDS)[:, None], table.high_ms, slower),
        broken_share(np.nanquantile(known_ms, BOUNDS, axis=1)[:, one], table.high_ms, slower),
        seconds,
    )


def broken_share(bounds_ms: Floats, high_ms: Floats, slower_ms: Floats) -> float:
    """Returns the share of accepted pairs that break a bound. bounds_ms: a row a bound, a column a pair or one."""
    kept = high_ms <= bounds_ms
    return float((kept & (slower_ms > bounds_ms)).sum() / max(1, kept.sum()))


def row(name: str, found: Sequence[Measured]) -> tuple[str, ...]:
    *shares, fit_seconds = (median(values) for values in zip(*found, strict=True))
    return name, *(f"{share:.1%}" for share in shares), f"{fit_seconds:.1f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of: {', '.join(NETWORKS)} (default: all)")
    options.add_argument("--seattle-later", type=Path, metavar="FILE", help="a later slice of seattle_1, beside them")
    args = options.parse_args()
    if later := args.seattle_later:
        before = (seattle(),) * MAX_REMEMBERED_SETS
        NETWORKS["seattle-later"] = lambda _: RttNetwork(seattle(later), before=before)
    rows: list[tuple[str, ...]] = [
        ("NETWORK", "MEDIAN ERROR", "P90 ERROR", "INTERVAL HOLDS", "BREAKS, ANY", "BREAKS, OWN", "FIT S")
    ]
    for name in args.networks or NETWORKS:
        rows.append(row(name, [measure(NETWORKS[name](seed), seed) for seed in range(args.seeds)]))
    print("\n".join(align_columns(rows)))


if __name__ == "__main__":
    main()
