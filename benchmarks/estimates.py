"""Measures how well unmeasured pairs are estimated, and how long the fit takes.

    python -m benchmarks.estimates --matrix FILE [FILE ...] [--before FILE [FILE ...]] [--unit ms|s]
        [--sets 8] [--peers agents|random] [--k 16] [--seed N [N ...]]
    python -m benchmarks.estimates --generate racks [--grouped] ...
    python -m benchmarks.estimates --nodes 5000

Every node measures the k others that its agent chooses over this network, by the agent's own code on a virtual clock (5
s of CPU a minute at 490 nodes); or k random ones, and then a measured pair counts in both directions. All other pairs
are held out. --before: earlier slices of the same network, the newest first; the last one also stands for all sets
before it. So many sets are measured, each four minutes before the next, the time in which agents replace their random
peers, and pairs that are not measured any more are remembered, as a reader does, but also those of nodes that moved,
which a reader forgets (eight sets are 37 minutes, some four minutes of CPU a seed at 490 nodes). A matrix is
whitespace-separated, one row a node, maybe gzipped; 0 and NaN are holes. The baseline is plain Vivaldi in four
dimensions with height, on what is measured now, with an interval of its measured pairs' error quantiles. Coverage
counts every direction by itself, `slower_above` pairs whose slower direction is above the interval. `bands` are by the
true round trip. `accepted` is what decisions make of the estimates: a bound accepts a pair whose interval's upper end
is not above it, and the slower direction breaks it. Bounds are 19 quantiles of all true round trips (`any`), as one
that many pods have, or of those to the pair's first node (`own`): then a bound is wide where the hidden truth is, and
more are broken. Several seeds of one matrix end with their median and range.
"""

import argparse
import asyncio
import gzip
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from leadsman.network.estimates import EstimateTable, NetworkEstimates
from leadsman.network.fitting import fit_network
from leadsman.network.former_pairs import former_pairs
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs, build_pairs, usable_mask
from leadsman.simulator.generated_cluster import rack_network, random_peers
from leadsman.sources.delay.fitted_estimates import MAX_REMEMBERED_SETS
from tests.holdout import EstimateAccuracy, held_out_pairs, measure_accuracy, sample_pairs
from tests.simulated_agents import agents_peers

RACKS = (3, 10, 16)
"""Zones, racks a zone, nodes a rack."""
BANDS_MS = ((0, 10), (0, 30), (30, 100), (100, 200), (200, 60_000))
"""Of the true round trip."""


BOUNDS = np.linspace(0.05, 0.95, 19)
"""Quantiles of true round trips, which are tried as bounds."""


VIVALDI_ROUNDS, VIVALDI_DIMENSIONS, VIVALDI_GAIN = 4_000, 4, 0.25


class RttNetwork(NamedTuple):
    name: str
    rtt_ms: Floats
    groups: tuple[Indices, ...] = ()
    before: tuple[Floats, ...] = ()


def main() -> None:
    args = arguments().parse_args()
    if args.nodes:
        print("\n".join(f"{name:18} {value:g}" for name, value in timed(args.nodes, args.k, args.seed[0]).items()))
        return
    found = [compared(network, args.peers, args.k, seed) for seed in args.seed for network in networks(args, seed)]
    show(found)


def arguments() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("--matrix", type=Path, nargs="+")
    source.add_argument("--generate", choices=["racks"])
    source.add_argument("--nodes", type=int, help="only time the fit of so many nodes, cold and warm")
    options.add_argument("--grouped", action="store_true", help="with --generate: the racks and zones are known")
    options.add_argument("--before", type=Path, nargs="+", default=[], help="earlier slices, the newest first")
    options.add_argument(
        "--sets",
        type=int,
        default=MAX_REMEMBERED_SETS,
        help="with --before: sets remembered (as a reader does: %(default)s)",
    )
    options.add_argument("--peers", choices=["agents", "random"], default="agents")
    options.add_argument("--unit", choices=["ms", "s"], default="ms")
    options.add_argument("--k", type=int, default=16, help="peers that each node measures")
    options.add_argument("--seed", type=int, nargs="+", default=[0])
    return options


def networks(args: argparse.Namespace, seed: int) -> Iterator[RttNetwork]:
    unit = 1000 if args.unit == "s" else 1
    before = tuple(matrix(path) * unit for path in args.before)
    for path in args.matrix or ():
        rtt_ms = matrix(path) * unit
        if any(each.shape != rtt_ms.shape for each in before):
            sys.exit(f"--before: {[len(each) for each in before]} nodes, {path}: {len(rtt_ms)}: want as many")
        yield RttNetwork(path.name, rtt_ms, before=(before + before[-1:] * args.sets)[: args.sets])
    if args.generate:
        made = rack_network(*RACKS, np.random.default_rng(seed))
        yield RttNetwork("racks", made.rtt_ms, (made.rack, made.zone) if args.grouped else ())


def matrix(path: Path) -> Floats:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as lines:
        found: Floats = np.loadtxt(lines, ndmin=2)
    return found


def measured(network: RttNetwork, peers: str, k: int, seed: int, rng: np.random.Generator) -> Sequence[MeasuredPairs]:
    """Returns what is measured now, and what was before."""
    slices = (network.rtt_ms, *network.before)
    if peers == "random":
        return [sample_pairs(rtt_ms, k, rng) for rtt_ms in slices]
    chosen = asyncio.run(agents_peers(network.rtt_ms, k, seed, len(slices)))
    return [probed.measured(rtt_ms) for probed, rtt_ms in zip(chosen, slices, strict=True)]


def compared(network: RttNetwork, peers: str, k: int, seed: int) -> dict[str, Any]:
    """Ours and the baseline on the same held-out pairs."""
    rng = np.random.default_rng(seed)
    nodes = len(network.rtt_ms)
    seen, *before = measured(network, peers, k, seed, rng)
    one, other = held_out_pairs(network.rtt_ms, seen)
    started = time.perf_counter()
    former = former_pairs(before, seen)
    estimates = fit_network(seen, rng, network.groups, former=former)
    seconds = time.perf_counter() - started
    truth = network.rtt_ms[one, other]
    slower = np.fmax(truth, network.rtt_ms[other, one])
    known_ms = np.where(usable_mask(network.rtt_ms), network.rtt_ms, np.nan)
    table = estimates.between(one, other)
    return {
        "matrix": network.name,
        "nodes": nodes,
        "peers": peers,
        "k": k,
        "seed": seed,
        "measured": len(seen.log_ms),
        "remembered": len(former.low),
        "held_out": len(truth),
        "slower_above": round(float((slower > table.high_ms).mean()), 4),
        "accepted": {
            "any": accepted(np.nanquantile(known_ms, BOUNDS)[:, None], table.high_ms, slower),
            "own": accepted(np.nanquantile(known_ms, BOUNDS, axis=1)[:, one], table.high_ms, slower),
        },
        "fit_seconds": round(seconds, 3),
        **score_fields(measure_accuracy(*table[:3], truth)),
        "baseline": score_fields(measure_accuracy(*vivaldi(seen, one, other, rng), truth)),
        "bands": list(by_bands(table, truth)),
    }


def accepted(bounds_ms: Floats, high_ms: Floats, slower_ms: Floats) -> dict[str, float]:
    """The pairs that are accepted, and the share of them that is broken. bounds_ms: a row a bound, a column a pair or
    one for all."""
    kept = high_ms <= bounds_ms
    broken = kept & (slower_ms > bounds_ms)
    return {"pairs": int(kept.sum()), "broken_ratio": round(float(broken.sum()) / max(1, int(kept.sum())), 4)}


def vivaldi(
    seen: MeasuredPairs, one: Indices, other: Indices, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Plain Vivaldi in four dimensions with height (Dabek et al. 2004, figure 5, 5.4): the baseline.

    The estimates of the pairs (one[k], other[k]) and their intervals. In each round every node measures one peer.
    """
    source = np.concatenate([seen.first, seen.second])
    order = np.argsort(source, kind="stable")
    target = np.concatenate([seen.second, seen.first])[order]
    rtt_ms = np.exp(np.concatenate([seen.log_ms, seen.log_ms])[order])
    begin, degree = np.searchsorted(source[order], np.arange(seen.node_count)), np.maximum(seen.degree, 1)
    point = rng.normal(0, 1e-3, (seen.node_count, VIVALDI_DIMENSIONS))
    height, error = np.full(seen.node_count, 0.01), np.ones(seen.node_count)
    for _ in range(VIVALDI_ROUNDS):
        slot = np.minimum(begin + (rng.random(seen.node_count) * degree).astype(int), len(target) - 1)
        peer, measured_ms = target[slot], rtt_ms[slot]
        apart = point - point[peer]
        length = np.maximum(np.linalg.norm(apart, axis=1), 1e-6)
        predicted = length + height + height[peer]
        weight = error / (error + error[peer])
        share = VIVALDI_GAIN * weight
        error = np.clip(np.abs(predicted / measured_ms - 1) * share + error * (1 - share), 0.01, 1.5)
        force = share * (measured_ms - predicted) / length
        point, height = point + apart * force[:, None], np.maximum(0.01, height + (height + height[peer]) * force)

    def estimate(first: Indices, second: Indices) -> Floats:
        distance: Floats = np.linalg.norm(point[first] - point[second], axis=1)
        return np.asarray(distance + height[first] + height[second])

    ratio: Floats = np.exp(seen.log_ms) / estimate(seen.first, seen.second)
    low, high = np.quantile(ratio, (0.05, 0.95))
    middle = estimate(one, other)
    return middle, middle * low, middle * high


def by_bands(table: EstimateTable, truth: Floats) -> Iterator[dict[str, float]]:
    for low_ms, high_ms in BANDS_MS:
        of = (truth >= low_ms) & (truth < high_ms)
        if of.any():
            accuracy = measure_accuracy(table.rtt_ms[of], table.low_ms[of], table.high_ms[of], truth[of])
            yield {"from_ms": low_ms, "to_ms": high_ms, "pairs": int(of.sum()), **score_fields(accuracy)}


def score_fields(found: EstimateAccuracy) -> dict[str, float]:
    return {name: round(value, 4) for name, value in found._asdict().items()}


def timed(nodes: int, k: int, seed: int) -> dict[str, Any]:
    """A plane with heights and 5 % of noise. The warm fit follows after one node in a hundred has moved."""
    rng = np.random.default_rng(seed)
    point, height = rng.uniform(0, 100, (2, nodes)), rng.exponential(3, nodes)
    source, target = random_peers(nodes, k, rng)

    def measure() -> MeasuredPairs:
        distance = np.hypot(*(point[:, source] - point[:, target])) + height[source] + height[target]
        return build_pairs(nodes, source, target, distance * np.exp(rng.normal(0, 0.05, len(source))))

    cold, cold_seconds = clocked(measure(), rng, None)
    point[:, : max(1, nodes // 100)] = rng.uniform(0, 100, (2, max(1, nodes // 100)))
    warm, warm_seconds = clocked(measure(), rng, cold)
    started = time.perf_counter()
    warm.row(0)
    row_seconds = time.perf_counter() - started
    found = {"nodes": nodes, "k": k, "seed": seed, "fit_seconds": cold_seconds, "warm_fit_seconds": warm_seconds}
    return found | {"row_seconds": round(row_seconds, 4)}


def clocked(
    seen: MeasuredPairs, rng: np.random.Generator, before: NetworkEstimates | None
) -> tuple[NetworkEstimates, float]:
    started = time.perf_counter()
    estimates = fit_network(seen, rng, before=before)
    return estimates, round(time.perf_counter() - started, 3)


def show(rows: Sequence[dict[str, Any]]) -> None:
    print(f"{'matrix':22} seed  fit s   median    p90  in 90 %   (baseline: plain Vivaldi)")
    for row in rows:
        ours, plain = ([f"{one[name]:7.1%}" for name in EstimateAccuracy._fields] for one in (row, row["baseline"]))
        print(f"{row['matrix']:22} {row['seed']:4} {row['fit_seconds']:6.1f}  {' '.join(ours)}   ({' '.join(plain)})")
        for kind, each in row["accepted"].items():
            print(f"    accepted, {kind} bounds {each['pairs']:13,}  {each['broken_ratio']:7.1%} broken")
        for band in row["bands"]:
            shown = " ".join(f"{band[name]:7.1%}" for name in EstimateAccuracy._fields)
            print(f"    {band['from_ms']:6,} to {band['to_ms']:6,} ms {band['pairs']:15,}  {shown}")
    for name in dict.fromkeys(row["matrix"] for row in rows):
        show_seeds([row for row in rows if row["matrix"] == name])


def show_seeds(rows: Sequence[dict[str, Any]]) -> None:
    """The median and range over the seeds of one matrix."""
    if len(rows) == 1:
        return
    print(f"{rows[0]['matrix']}, {len(rows)} seeds: median (lowest to highest)")
    print(f"    all pairs              {' '.join(spread(rows, name) for name in EstimateAccuracy._fields)}")
    for low_ms, high_ms in BANDS_MS:
        bands = [band for row in rows for band in row["bands"] if (band["from_ms"], band["to_ms"]) == (low_ms, high_ms)]
        if bands:
            shown = " ".join(spread(bands, name) for name in EstimateAccuracy._fields)
            print(f"    {low_ms:6,} to {high_ms:6,} ms    {shown}")
    for kind in ("any", "own"):
        print(f"    accepted, {kind} bounds   {spread([row['accepted'][kind] for row in rows], 'broken_ratio')} broken")


def spread(scores: Sequence[dict[str, float]], name: str) -> str:
    values = [each[name] for each in scores]
    return f"{median(values):6.1%} ({min(values):.1%} to {max(values):.1%})"


if __name__ == "__main__":
    main()
