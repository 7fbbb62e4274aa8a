"""Compares the capacity that the greedy plan and the search reserve.

Needs leadsman[plan]. Nodes of planetlab_1 with 64 GiB, pods of 1 to 16 GiB, none placed, each with the 2 to 8 nodes
nearest to one of them as candidates; in GiB. Seconds in the table are of the CPU.

    python -m benchmarks.optimise --work 24 --sizes 20x100,50x250 --seed 0
"""

import argparse
import time
from pathlib import Path

import numpy as np

from leadsman.planning.backups.backup_plan import BackupScope, FailureDomain
from leadsman.planning.backups.reserve import Room
from leadsman.planning.optimise.choices import NO_NODE, Choices, PodOptions, Problem, greedy_choices, score
from leadsman.runtime.text_table import align_columns
from leadsman.simulator import solver

PLANETLAB = Path(__file__).parents[1] / "tests" / "data" / "rtt" / "planetlab_1.txt.gz"
NODE_GIB, POD_GIB = 64, (1, 2, 4, 8, 16)
CANDIDATES = (2, 8)
CAP_SECONDS = 1800.0


def planetlab_problem(nodes: int, pods: int, seed: int) -> Problem:
    """Makes a problem of pods of five sizes, each near a node."""
    rng = np.random.default_rng(seed)
    matrix = np.loadtxt(PLANETLAB)
    kept = rng.choice(len(matrix), nodes, replace=False)
    rtt_ms = np.maximum(matrix, matrix.T)[np.ix_(kept, kept)]
    np.fill_diagonal(rtt_ms, 0.0)
    made = []
    for _ in range(pods):
        reference, count = int(rng.integers(nodes)), int(rng.integers(CANDIDATES[0], CANDIDATES[1] + 1))
        near = tuple(sorted(np.argsort(rtt_ms[reference], kind="stable")[:count].tolist()))
        made.append(PodOptions((int(rng.choice(POD_GIB)),), None, False, near, near, 1))
    names = tuple(f"node-{number}" for number in range(nodes))
    domains = tuple((FailureDomain(BackupScope.NODE, name), None, None) for name in names)
    room = Room(names, ("memory",), np.full((nodes, 1), NODE_GIB, np.int64), domains)
    return Problem(room, units=(1 << 30,), weights=(1,), pods=tuple(made))


def row(nodes: int, pods: int, work: float, seed: int) -> list[str]:
    problem = planetlab_problem(nodes, pods, seed)
    began = time.process_time()
    start = greedy_choices(problem, (NO_NODE,) * pods)
    greedy_seconds = time.process_time() - began
    began = time.process_time()
    found = solver.optimise(problem, start, seed + 1, work, CAP_SECONDS, lambda _: None)
    search_seconds = time.process_time() - began
    return [
        f"{nodes} x {pods}, {seed}",
        f"{reserved(problem, start)} ({greedy_seconds:.1f} s)",
        f"{found.score.reserved} ({found.reserved_bound}; {search_seconds:.0f} s; {found.ended})",
        f"{found.score.reserved / max(found.reserved_bound, 1):.3f}",
        f"{found.score.unplaced + found.score.uncovered}",
    ]


def reserved(problem: Problem, choices: Choices) -> int:
    at = score(problem, choices)
    assert at is not None
    return at.reserved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="20x100,50x250")
    parser.add_argument("--work", type=float, default=24.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    table = [["NODES x PODS", "GREEDY", "SEARCH (BOUND)", "SEARCH / BOUND", "LACKING"]]
    for size in args.sizes.split(","):
        nodes, pods = map(int, size.split("x"))
        table.append(row(nodes, pods, args.work, args.seed))
    print("\n".join(align_columns(table)))


if __name__ == "__main__":
    main()
