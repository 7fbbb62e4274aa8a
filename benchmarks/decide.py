"""How long one decision thinks, in µs of CPU: `python -m benchmarks.decide`.

Each node reports hardware and 16 peers. "mesh": every node also measures the reference, the worst case,
and most of them keep the bound.
Between two decisions 1 % of the nodes report, as a busy cluster's do.
"""

import random
import time
from collections.abc import Callable

from msgspec import structs

from leadsman.decision.cache import DecisionCache
from leadsman.decision.decide import decide, filter_nodes, score_nodes
from leadsman.decision.explain import explain
from leadsman.decision.explain_text import format_explanation
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state import metric_names
from leadsman.state.records import Hardware, Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

SIZES = (100, 1_000, 5_000)
ROUNDS = 40
NOW = 10.0


def random_window(rng: random.Random) -> PeerLatency:
    ms = rng.lognormvariate(2, 1)
    return PeerLatency(30, 30, ms, ms * 1.2, ms * 0.9)


def random_state(node: int, count: int, mesh: bool, rng: random.Random) -> NodeState:
    peers = {f"node-{(node + step) % count}": random_window(rng) for step in range(1, 17)}
    if mesh:
        peers["node-0"] = random_window(rng)
    metrics = (
        metric_names.CPU_PRESSURE,
        metric_names.MEMORY_PRESSURE,
        metric_names.IO_PRESSURE,
        metric_names.LOAD_PER_CPU,
    )
    hardware = Hardware({metric: rng.random() for metric in metrics} | {metric_names.TEMPERATURE: rng.uniform(30, 90)})
    return NodeState(None, Heartbeat(1, 1, 5.0), Latency(peers), hardware, 5.0)


def snapshots(count: int, mesh: bool, rng: random.Random) -> list[Snapshot]:
    """One after another; between two, 1 % of the nodes report."""
    nodes = {f"node-{node}": random_state(node, count, mesh, rng) for node in range(count)}
    made = []
    for _ in range(ROUNDS):
        moved = rng.sample(sorted(nodes), max(1, count // 100))
        nodes = nodes | {node: structs.replace(nodes[node], changed_at=6.0) for node in moved}
        made.append(Snapshot(nodes))
    return made


def timed(work: Callable[[DecisionInputs, list[str]], object], made: list[Snapshot], renewed: bool) -> float:
    """µs of CPU, the least of ROUNDS calls (timeit's rule: the rest is noise).

    The names are new strings each time, as they come out of a JSON body.
    """
    memo, spent = DecisionCache(), []
    for snapshot in made:
        facts = DecisionInputs(snapshot if renewed else made[0], Policy(), NOW, memo)
        nodes = ["".join(node) for node in map(list, snapshot.nodes)]
        start = time.process_time()
        work(facts, nodes)
        spent.append(time.process_time() - start)
    return 1e6 * min(spent)


def main() -> None:
    free, bound = PodInfo("default", "free"), PodInfo("default", "bound", labels={"delay_node-0": "25"})
    works: dict[str, Callable[[DecisionInputs, list[str]], object]] = {
        "judge, no bound": lambda facts, nodes: filter_nodes(free, nodes, facts),
        "judge, one bound": lambda facts, nodes: filter_nodes(bound, nodes, facts),
        "rank, no bound": lambda facts, nodes: score_nodes(free, nodes, facts),
        "judge + rank, one bound": lambda facts, nodes: decide(bound, nodes, facts),
        "explain + text": lambda facts, nodes: format_explanation(explain(decide(bound, nodes, facts), facts)),
    }
    print(f"{'µs':<34}" + "".join(f"{size:>9,}" for size in SIZES) + "  nodes")
    for mesh in (False, True):
        made = {size: snapshots(size, mesh, random.Random(size)) for size in SIZES}
        for renewed in (False, True):
            for name, work in works.items():
                row = f"{name}{', mesh' if mesh else ''}{', new state' if renewed else ''}"
                print(f"{row:<34}" + "".join(f"{timed(work, made[size], renewed):>9,.0f}" for size in SIZES))


if __name__ == "__main__":
    main()
