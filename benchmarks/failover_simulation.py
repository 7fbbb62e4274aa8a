"""Deaths of nodes in simulated clusters: virtual seconds from the cut to the verdict, the deletion and the bind.

    python -m benchmarks.failover_simulation                        9 to 1,000 nodes, 50 deaths each, some minutes
    python -m benchmarks.failover_simulation --nodes 2000 --deaths 10

The planners are the real ones: detection, backups, recovery. Agents, kubelets, the API server and kube-scheduler are
simulated with their rhythms, placeholders not at all, and what the planners take to compute is not in the figures
(`benchmarks.failover` has all that). The budget is raised, so that no death is withheld. Past 1,000 nodes agents report
less often (docs/architecture.md), which the row states. Exits with 1 when a replacement was bound to a dead node.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from leadsman.planning.failover.model import NodeHealth
from leadsman.runtime.text_table import align_columns
from leadsman.simulator.failover.run import FailoverSimulation, SimulatedDeath

SIZES = (9, 100, 1000)
STEPS = ("detected", "decided", "bound")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--deaths", type=int, default=50, metavar="N", help="of each kind (default 50)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rows: list[tuple[str, ...]] = [
        ("nodes", "P s", "died", "deaths", "pods", "s from the cut to", "p50", "p95", "max", "bound to the dead")
    ]
    pairs, to_dead = list[str](), 0
    for nodes in args.nodes:
        world = FailoverSimulation(nodes, pods=min(6 if nodes < 20 else nodes // 4, 100), seed=args.seed)
        kinds = {
            "node": repeated(world.death, args.deaths),
            "node and leader": repeated(partial(world.death, with_leader=True), args.deaths),
            "node, extender away": repeated(partial(world.death, extender_answers=False), args.deaths),
        }
        size = f"{nodes}", f"{world.agents.timing.push_interval_seconds:g}"
        for kind, deaths in kinds.items():
            rows += [(*size, kind, *row) for row in figures(deaths)]
            to_dead += sum(death.bound_to_dead for death in deaths)
        if nodes > 20:
            pairs.append(pairs_of_one_rack(world, nodes, args.deaths))
    sys.stdout.write("\n".join([*align_columns(rows), "", *pairs]) + "\n")
    return int(to_dead > 0)


def repeated(death: Callable[[], SimulatedDeath], count: int) -> list[SimulatedDeath]:
    """Says each as it comes, because a large cluster's take seconds."""
    deaths = []
    for _ in range(count):
        deaths.append(death())
        sys.stderr.write(f"{deaths[-1]}\n")
    return deaths


def figures(deaths: Sequence[SimulatedDeath]) -> list[tuple[str, ...]]:
    """A row a step; a step that was not reached is shown as never."""
    pods, to_dead = sum(death.pods for death in deaths), sum(death.bound_to_dead for death in deaths)
    rows = []
    for step in STEPS:
        seconds = sorted(float("inf") if (at := getattr(death, step)) is None else at for death in deaths)
        quantiles = [seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.95, 1.0)]
        shown = ["never" if at == float("inf") else f"{at:.1f}" for at in quantiles]
        rows.append((f"{len(deaths)}", f"{pods}", step, *shown, f"{to_dead}"))
    return rows


def pairs_of_one_rack(world: FailoverSimulation, nodes: int, count: int) -> str:
    """What becomes of two nodes of one rack that die at once."""
    verdicts = Counter[NodeHealth]()
    for _ in range(count):
        verdicts.update(death.verdict for death in world.deaths(*world.two_of_one_rack()))
    shown = ", ".join(f"{verdicts[state]} {state}" for state in NodeHealth if verdicts[state])
    return f"{nodes} nodes, two of one rack of 20 die at once, {count} times: of {2 * count} nodes {shown}"


if __name__ == "__main__":
    sys.exit(main())
