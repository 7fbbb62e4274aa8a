"""Which nodes are named for reports that others contradict: the share of honest ones, and of liars.

    python -m benchmarks.contradicted --matrix FILE [--unit ms|s] [--peers agents|random] [--seed N [N ...]] [--liars 5]
    python -m benchmarks.contradicted --racks ZONES RACKS NODES ...

Every node measures the 16 others that its agent chooses over this network, or random ones. Honest: with an implausible
report, and named. A liar of all says 0.001 ms to 256 others (a fit a liar); beside it honest nodes are named, too, or
not. Liars of one say 0.001 ms, a quarter, four times or 1 s of one node each, all in one fit: the share of these lies
that is left out of estimates, of the liars that are named, and named once the other end measures the pair. --liars 0:
only what honest nodes are.
"""

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.liars import BUDGET, CLAIMS, NEAR_MS, measured
from benchmarks.lying_reporters import FAR_MS, Lie
from leadsman.network.measured_pairs import Floats
from leadsman.network.synthetic_network import rack_network, random_peers
from leadsman.simulator.agents_peers import agents_peers
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates

K = 16
LIES = {"0.001 ms": Lie(0), "a quarter": Lie(1 / 4), "four times": Lie(4), "1 s": Lie(1e9)}
RttReports = dict[int, dict[int, float]]
"""Reporter → target → milliseconds."""


class Share(NamedTuple):
    what: str
    nodes: int
    of: int


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("--matrix", type=Path)
    source.add_argument("--racks", type=int, nargs=3, metavar=("ZONES", "RACKS", "NODES"), help="a zone, a rack")
    options.add_argument("--unit", choices=["ms", "s"], default="ms")
    options.add_argument("--peers", choices=["agents", "random"], default="random")
    options.add_argument("--liars", type=int, default=5)
    options.add_argument("--seed", type=int, nargs="+", default=[1], help="counted together")
    chosen = options.parse_args()
    counts, totals = dict[str, int](), dict[str, int]()
    for seed in chosen.seed:
        rng = np.random.default_rng(seed)
        rtt_ms = network(chosen, rng)
        for share in shares(rtt_ms, honest_reports(rtt_ms, chosen.peers, seed), chosen.liars, rng):
            counts[share.what] = counts.get(share.what, 0) + share.nodes
            totals[share.what] = totals.get(share.what, 0) + share.of
    for what, count in counts.items():
        print(f"{what:50} {count:7,} of {totals[what]:7,}  {count / totals[what]:8.2%}")


def network(chosen: argparse.Namespace, rng: np.random.Generator) -> Floats:
    if chosen.racks:
        zones, racks, nodes = chosen.racks
        return rack_network(zones, racks, nodes, rng).rtt_ms
    return np.loadtxt(chosen.matrix) * (1000 if chosen.unit == "s" else 1)


def honest_reports(rtt_ms: Floats, peers: str, seed: int) -> RttReports:
    """Nothing of pairs that the matrix has no value of."""
    if peers == "agents":
        (one, other), *_ = asyncio.run(agents_peers(rtt_ms, K, seed))
    else:
        one, other = random_peers(len(rtt_ms), K, np.random.default_rng(seed))
    reports: RttReports = {node: {} for node in range(len(rtt_ms))}
    for reporter, target in zip(one.tolist(), other.tolist(), strict=True):
        if rtt_ms[reporter, target] > 0:
            reports[reporter][target] = float(rtt_ms[reporter, target])
    return reports


def shares(rtt_ms: Floats, reports: RttReports, liars: int, rng: np.random.Generator) -> Iterator[Share]:
    honest, nodes = fitted(reports), len(reports)
    yield Share("honest, with an implausible report", len(honest.implausible), nodes)
    yield Share("honest, named", len(honest.contradicted), nodes)
    some = rng.permutation(nodes)[:liars].tolist()
    for liar in some:
        others = rng.permutation(np.delete(np.arange(nodes), liar))[:CLAIMS].tolist()
        found = fitted(reports | {liar: dict.fromkeys(others, NEAR_MS)})
        yield Share("liar of all, with an implausible report", name(liar) in found.implausible, 1)
        yield Share("liar of all, named", name(liar) in found.contradicted, 1)
        yield Share("honest beside it, named", len(found.contradicted.keys() - {name(liar)}), nodes - 1)
    pairs = {liar: lied_about(rtt_ms, reports, liar) for liar in some}
    for what, lie in LIES.items() if pairs else ():
        lied = {node: dict(of) for node, of in reports.items()}
        for liar, target in pairs.items():
            lied[liar][target] = lie.of(lied[liar][target])
        alone = fitted(lied)
        for liar, target in pairs.items():
            lied[target][liar] = float(rtt_ms[target, liar])
        denied = fitted(lied)
        left_out = sum(name(target) in alone.implausible.get(name(liar), ()) for liar, target in pairs.items())
        yield Share(f"lie of one, {what}: left out", left_out, len(pairs))
        for how, found in (("alone", alone), ("both ends", denied)):
            named = sum(name(liar) in found.contradicted for liar in pairs)
            yield Share(f"liar of one, {what}, {how}: named", named, len(pairs))
        yield Share("honest beside liars of one, named", len(denied.contradicted.keys() - set(map(name, pairs))), nodes)


def lied_about(rtt_ms: Floats, reports: RttReports, liar: int) -> int:
    """A peer that does not measure the liar, and could."""
    return next(
        peer
        for peer, ms in reports[liar].items()
        if liar not in reports[peer] and rtt_ms[peer, liar] > 0 and NEAR_MS < ms < FAR_MS
    )


def fitted(reports: RttReports) -> FittedEstimates:
    return fit_estimates(measured(reports), 0.0, budget=BUDGET)


def name(node: int) -> str:
    """As in `measured`."""
    return f"{node:03}"


if __name__ == "__main__":
    main()
