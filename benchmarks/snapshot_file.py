"""A snapshot file of 5,000 nodes and 50,000 pods: seconds and memory to write and to read it.

    python -m benchmarks.snapshot_file [--nodes 5000] [--pods 50000]

Agents report 33 peers each. Each step runs in a process of its own and prints CPU seconds, which other work on the
machine disturbs less than those of the wall, and the process's resident memory before the step and at its peak. Beside
reading stands `json.loads` of the same bytes, which makes plain dicts of them.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from leadsman.runtime.text_table import align_columns
from leadsman.simulator.generated_cluster.generate import generate
from leadsman.simulator.generated_cluster.spec import parse_spec
from leadsman.sources.cluster_snapshot import ClusterSnapshot, read_snapshot, snapshot_chunks

MIB = 1 << 20


class Measured(NamedTuple):
    """cpu_seconds, wall_seconds: of the step. before_mib, peak_mib: resident memory before it, and at its peak."""

    cpu_seconds: float
    wall_seconds: float
    before_mib: float
    peak_mib: float


def measured(step: Callable[[], object]) -> Measured:
    before = psutil.Process().memory_info().rss / MIB
    cpu, wall = time.process_time(), time.monotonic()
    kept = step()
    cpu_seconds, wall_seconds = time.process_time() - cpu, time.monotonic() - wall
    del kept
    return Measured(cpu_seconds, wall_seconds, before, _peak_mib())


def _peak_mib() -> float:
    """Of this process since it began: proc_pid_status(5). ru_maxrss has its parent's too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def write(file: Path) -> Measured:
    snapshot = read_snapshot(file.read_bytes())

    def step() -> None:
        with file.with_suffix(".copy").open("wb") as out:
            out.writelines(snapshot_chunks(snapshot))

    return measured(step)


def read(file: Path) -> Measured:
    return measured(lambda: read_snapshot(file.read_bytes()))


def plain(file: Path) -> Measured:
    return measured(lambda: json.loads(file.read_bytes()))


STEPS: dict[str, Callable[[Path], Measured]] = {
    "read": read,
    "json.loads": plain,
    "write": write,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    args = parser.parse_args()
    spec = f"zones=10,racks={args.nodes // 200},nodes=20,pods={args.pods},peers=33,cpu=32,memory=64Gi"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        with file.open("wb") as out:
            out.writelines(snapshot_chunks(ClusterSnapshot(*generate(parse_spec(spec)))))
        print(f"{args.nodes} nodes, {args.pods} pods, {file.stat().st_size / MIB:.0f} MiB")
        table = [["STEP", "CPU S", "WALL S", "MIB BEFORE", "MIB AT PEAK"]]
        for name, step in STEPS.items():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                one = pool.apply(step, (file,))
            table.append(
                [
                    name,
                    f"{one.cpu_seconds:.1f}",
                    f"{one.wall_seconds:.1f}",
                    f"{one.before_mib:.0f}",
                    f"{one.peak_mib:.0f}",
                ]
            )
    print("\n".join(align_columns(table)))


if __name__ == "__main__":
    main()
