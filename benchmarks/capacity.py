"""`leadsman plan fit` at 1,000 nodes, part by part, and beside binding pods one at a time.

    python -m benchmarks.capacity

Generated racks and zones, half of the memory free; every pod that runs is bound to a node. One at a time is how
kubernetes-sigs/cluster-capacity counts: each pod is judged on every node and bound to the freest. Seconds are of CPU
and, in brackets, of the wall. `--nodes-per-rack 20`, `--seed`, `--mixes 20`: sets of two random templates, and how far
apart the count and its proven limit are.
"""

import argparse
import random
import time
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.capacity.consequences import additions, losses
from leadsman.planning.capacity.count import count_together, only
from leadsman.planning.capacity.fit_model import PodTemplate, model_capacity
from leadsman.planning.capacity.report import reasons
from leadsman.planning.situation import Situation
from leadsman.runtime.text_table import align_columns
from leadsman.simulator.generated_cluster import generate, parse_spec

T = TypeVar("T")
GIB = 1 << 30
SETTINGS = BackupSettings()


class Stopwatch:
    """Rows of what was measured."""

    def __init__(self) -> None:
        self.rows = [("PART", "CPU s (WALL s)", "RESULT")]
        self.cpu_seconds = 0.0

    def measured(self, what: str, work: Callable[[], T], result: Callable[[T], str]) -> T:
        began, cpu_began = time.monotonic(), time.process_time()
        found = work()
        cpu = time.process_time() - cpu_began
        self.cpu_seconds += cpu
        self.rows.append((what, f"{cpu:.2f} ({time.monotonic() - began:.1f})", result(found)))
        return found


def template(name: str, memory_bytes: int, cpu_millis: int, **more: str) -> PodTemplate:
    pod = ClusterPod(
        name,
        "default",
        name,
        workload=f"deployment/{name}",
        owner_kind="ReplicaSet",
        owner_uid=name,
        requests=Resources(cpu_millis, memory_bytes, 1),
        labels={"app": name, **more},
    )
    return PodTemplate(f"default/deployment/{name}", pod)


def one_at_a_time(cluster: Cluster, pod: ClusterPod, most: int) -> int:
    """Says how many of at most so many pods are bound."""
    for number in range(most):
        named = replace(pod, uid=f"one-{number}", name=f"one-{number}")
        nodes = Feasibility(cluster, named).nodes
        if not nodes:
            return number
        cluster = cluster.with_pod(named, max(nodes, key=lambda node: cluster.free(node).memory_bytes))
    return most


def fit_in_parts(cluster: Cluster, inputs: DecisionInputs) -> None:
    web = replace(template("web", GIB, 500), per_set=3)
    near = template("near", 4 * GIB, 1000, **{f"delay_{next(iter(cluster.nodes))}": "5"})
    watch = Stopwatch()
    plan: BackupPlan = watch.measured(
        "backups of the pods that run",
        lambda: plan_backups(Situation(cluster, inputs), SETTINGS),
        lambda plan: f"{len(plan.backups)} of {len(plan.pods)}",
    )
    model = watch.measured(
        "model", lambda: model_capacity(Situation(cluster, inputs), [web, near], SETTINGS, plan), lambda _: ""
    )
    counted = watch.measured(
        "3 web + 1 near", lambda: count_together(model), lambda count: f"{count.sets} sets, at most {count.at_most}"
    )
    for number in (0, 1):
        alone = only(model, number)
        count = watch.measured(
            model.templates[number].name,
            lambda alone=alone: count_together(alone),  # type: ignore[misc]
            lambda count: f"{count.sets}, at most {count.at_most}",
        )
        reasons(alone, 0, count)
    watch.measured("every failure", lambda: list(losses(model)), lambda found: f"{len(found)} failures")
    watch.measured(
        f"what to add for {counted.sets * 5 // 4}",
        lambda: additions(model, counted.sets * 5 // 4, {}),
        lambda found: f"+{found[0].copies} like {found[0].node}" if found else "nothing helps",
    )
    watch.rows.append(("all", f"{watch.cpu_seconds:.2f}", "target: under 10 s of CPU"))
    print("\n".join(align_columns(watch.rows)))


def beside_one_at_a_time(cluster: Cluster, inputs: DecisionInputs, most: int) -> None:
    """Both count the same pods in the same room, without backups."""
    wanted = template("web", 4 * GIB, 500)
    watch = Stopwatch()
    model = model_capacity(Situation(cluster, inputs), [wanted], SETTINGS, backups=False)
    count = watch.measured("count", lambda: count_together(model), lambda count: f"{count.sets}")
    ours = watch.cpu_seconds
    watch.measured(
        "one at a time", lambda: one_at_a_time(model.situation.cluster, wanted.pod, most), lambda number: f"{number}"
    )
    theirs = watch.cpu_seconds - ours
    print("\n".join(align_columns(watch.rows)))
    print(f"one at a time takes {theirs / max(ours, 1e-9):.0f} x the CPU; up to {most} pods, of {count.sets}")


def mixes(cluster: Cluster, inputs: DecisionInputs, number: int, seed: int) -> None:
    """Random templates of all sizes, half of them bound."""
    rng, gaps = random.Random(seed), list[float]()
    plan = plan_backups(Situation(cluster, inputs), SETTINGS)
    nodes = list(cluster.nodes)
    for _ in range(number):
        templates = []
        for name in ("a", "b"):
            bounds = {f"delay_{rng.choice(nodes)}": str(rng.choice((1, 5, 50)))} if rng.random() < 0.5 else {}
            memory, cpu = rng.randint(1, 32) * GIB // 8, rng.randint(1, 20) * 100
            templates.append(replace(template(name, memory, cpu, **bounds), per_set=rng.randint(1, 4)))
        count = count_together(model_capacity(Situation(cluster, inputs), templates, SETTINGS, plan))
        gaps.append((count.at_most - count.sets) / max(count.at_most, 1))
    exact = sum(not gap for gap in gaps)
    print(f"{exact} of {number} random mixes of two templates are exact; the widest gap is {max(gaps):.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes-per-rack", type=int, default=20, help="in each of 50 racks (default 20)")
    parser.add_argument("--mixes", type=int, default=20)
    parser.add_argument("--one-at-a-time", type=int, default=1000, help="pods to bind one at a time")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    spec = parse_spec(f"zones=5,racks=10,nodes={args.nodes_per_rack},spare=0.5,seed={args.seed}")
    cluster, inputs = generate(spec, None)
    print(f"{len(cluster.nodes)} nodes, {len(cluster.pods)} pods")
    fit_in_parts(cluster, inputs)
    print()
    beside_one_at_a_time(cluster, inputs, args.one_at_a_time)
    print()
    mixes(cluster, inputs, args.mixes, args.seed)


if __name__ == "__main__":
    main()
