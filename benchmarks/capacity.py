"""Measures `leadsman plan fit` part by part, and its peak memory: `python -m benchmarks.capacity`

Generated racks and zones, half of the memory free; half of the pods that run have a bound to a node. Seconds are of CPU
and, in brackets, of the wall. `--nodes-per-rack 20` makes 1,000 nodes, 100 makes 5,000.
"""

import argparse
import resource
import time
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.capacity.consequences import additions, losses
from leadsman.planning.capacity.count import count_together
from leadsman.planning.capacity.fit_model import PodTemplate, model_capacity
from leadsman.planning.situation import Situation
from leadsman.runtime.text_table import align_columns
from leadsman.simulator.generated_cluster import GeneratorSpec, generate, parse_spec

T = TypeVar("T")
GIB = 1 << 30
SETTINGS = BackupSettings()


class Stopwatch:
    """Times parts of a job, and collects a row for each."""

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
    for each in model.templates:
        alone = model_capacity(model.situation, [replace(each, per_set=1)], SETTINGS, plan)
        watch.measured(
            each.name,
            lambda alone=alone: count_together(alone),  # type: ignore[misc]
            lambda count: f"{count.sets}, at most {count.at_most}",
        )
    watch.measured("every failure", lambda: list(losses(model)), lambda found: f"{len(found)} failures")
    watch.measured(
        f"what to add for {counted.sets * 5 // 4}",
        lambda: additions(model, counted.sets * 5 // 4),
        lambda found: f"+{found[0].copies} like {found[0].node}" if found else "nothing helps",
    )
    watch.rows.append(("all", f"{watch.cpu_seconds:.2f}", "at most 10 s for 1,000 nodes, 60 s for 5,000"))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    watch.rows.append(("peak memory", f"{peak_mib} MiB", "at most 400 MiB for 5,000 nodes"))
    print("\n".join(align_columns(watch.rows)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes-per-rack", type=int, default=20, help="in each of 50 racks (default 20)")
    parser.add_argument("--bounded", type=float, default=0.5, help="share of the workloads (default 0.5)")
    parser.add_argument(
        "--sizes", default=GeneratorSpec().sizes, help="of pods; 256Mi|512Mi|1Gi|1536Mi makes 50,000 on 5,000 nodes"
    )
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    chosen = f"nodes={args.nodes_per_rack},bounded={args.bounded},sizes={args.sizes},seed={args.seed}"
    spec = parse_spec(f"zones=5,racks=10,spare=0.5,{chosen}")
    cluster, inputs = generate(spec, None)
    print(f"{len(cluster.nodes)} nodes, {len(cluster.pods)} pods")
    fit_in_parts(cluster, inputs)


if __name__ == "__main__":
    main()
