"""Measures what probing costs a node and the store, and how soon a new node converges: 10 to 5,000 simulated agents.

    python -m benchmarks.probing_scale [--nodes N ...] [--settle-seconds 300] [--json]

Virtual time, one store in memory, the agents' own code but for sockets; see leadsman/simulator/probing.py. 5,000 nodes
take some ten minutes. No figure of a node may grow with the cluster.
"""

import argparse
import asyncio

import msgspec

from leadsman.simulator.probing_run import ProbingFigures, run_probing

SIZES = [10, 100, 1000, 5000]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, nargs="+", default=SIZES)
    options.add_argument("--settle-seconds", type=float, default=300.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--json", action="store_true")
    args = options.parse_args()
    for nodes in args.nodes:
        figures = asyncio.run(run_probing(nodes, args.settle_seconds, seed=args.seed))
        print(msgspec.json.encode(figures).decode() if args.json else report(figures), flush=True)


def report(found: ProbingFigures) -> str:
    received, written, read = (
        found.received_per_second,
        found.written_bytes_per_second_a_node,
        found.read_bytes_per_second_a_node,
    )
    rows = {
        "nodes (estimated, assumed)": f"{found.nodes} ({found.estimated_nodes:.0f}, {found.assumed_nodes:.0f})",
        "probes a second, all": f"{found.probes_per_second:.0f}",
        "probes a second sent by a node": f"{found.sent_per_second.mean:.1f}, at most {found.sent_per_second.most:.1f}",
        "probes a second received": f"{received.mean:.1f}, at most {received.most:.1f}",
        "probed by": f"{found.probed_by.mean:.1f}, p99 {found.probed_by.p99:.0f}, at most {found.probed_by.most:.0f}",
        "etcd written": f"{found.written_bytes_per_second:.0f} B/s, {written.mean:.0f} a node",
        "etcd read": f"{found.read_bytes_per_second:.0f} B/s, {read.mean:.0f} a node",
        "etcd calls": f"{found.calls_per_second:.1f} a second, {found.calls_per_second / found.nodes:.2f} a node",
        "coordinates' error": f"median {found.median_relative_error:.1%}, p90 {found.p90_relative_error:.0%}",
        "a new node reported after": seconds(found.joined_reported_seconds),
        "was probed by its ring after": seconds(found.joined_probed_seconds),
        "coordinate converged after": seconds(found.joined_placed_seconds),
        "probes to a departed node stop after": seconds(found.left_forgotten_seconds),
    }
    return "\n".join(f"{name:37} {value}" for name, value in rows.items()) + "\n"


def seconds(value: float | None) -> str:
    return "never in the time given" if value is None else f"{value:.0f} s"


if __name__ == "__main__":
    main()
