"""Measures what probing costs a node and the store, and how soon a new node converges: 10 to 5,000 simulated agents.

    python -m benchmarks.probing_scale [--nodes N ...] [--settle-seconds 300]

Virtual time, one store in memory, the agents' own code but for sockets; see tests/probing_figures.py. 5,000 nodes take
some ten minutes. No figure of a node may grow with the cluster.
"""

import argparse

from leadsman.runtime.text_table import align_columns
from tests.probing_figures import run_probing, seconds_until_forgotten


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000, 5000])
    options.add_argument("--settle-seconds", type=float, default=300.0)
    options.add_argument("--seed", type=int, default=1)
    args = options.parse_args()
    columns = []
    for nodes in args.nodes:
        found = run_probing(nodes, args.settle_seconds, seed=args.seed)
        found["a node that left is forgotten after"] = seconds_until_forgotten(nodes, args.settle_seconds, args.seed)
        columns.append(found)
    rows = [[name, *(f"{found[name]:.3g}" for found in columns)] for name in columns[0]]
    print("\n".join(align_columns([["nodes", *map(str, args.nodes)], *rows])))


if __name__ == "__main__":
    main()
