"""`python -m tests.failover.table`: every fault on a real cluster, and what detection says of it. As root.

Each fault is held for its time and healed; then all nodes must be healthy again before the next one. `--quick` runs
a few rows at a faster rhythm. Exit status 1 when a node was called dead that was not, or a dead one was not.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from leadsman.runtime.text_table import align_columns
from tests.failover.faults import FAULTS, Fault
from tests.failover.real_cluster import AS_INSTALLED, NODES, QUICK, RealCluster

SETTLED_WITHIN_SECONDS = 120.0


class Row(NamedTuple):
    """seen: other verdicts that nodes had meanwhile. detection: seconds from the cut, and from the first lost probe."""

    fault: str
    held_seconds: float
    seen: str
    deaths: int
    expected: int
    recovery_seconds: float
    detection: str = ""


def hold(cluster: RealCluster, fault: Fault, seconds: float) -> Row:
    """Makes the fault, holds it, heals it, and waits until all nodes are healthy."""
    before, seen = cluster.deaths(), set[tuple[str, str]]()
    fault.make(cluster)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        fault.repeat(cluster)
        seen |= {(f"{one['verdict']} {one['reason']}", node) for node, one in cluster.troubled().items()}
        time.sleep(0.4)
    fault.undo(cluster)
    recovery = cluster.wait_until(cluster.is_settled, f"all nodes healthy after: {fault.name}", SETTLED_WITHIN_SECONDS)
    return Row(fault.name, seconds, _counted(seen), round(cluster.deaths() - before), 0, recovery)


def kill(cluster: RealCluster, node: str) -> Row:
    """Kills a node for good, waits for the verdict, and brings it back."""
    before, lost = cluster.deaths(), cluster.detection_seconds()
    began = time.monotonic()
    cluster.kill(node)
    took = cluster.wait_until(lambda: cluster.troubled().get(node, {}).get("verdict") == "dead", f"{node} dead", 60.0)
    cluster.wait_until(lambda: cluster.condition(node) == "True", f"the condition on {node}", 10.0)
    detection = f"{took:.1f} s after the cut, {cluster.detection_seconds() - lost:.1f} s after the first lost probe"
    cluster.heal()
    cluster.revive(node)
    recovery = cluster.wait_until(cluster.is_settled, f"{node} healthy again", SETTLED_WITHIN_SECONDS)
    held = time.monotonic() - began - recovery
    return Row("a node killed", held, f"dead {node}", round(cluster.deaths() - before), 1, recovery, detection)


def rows(cluster: RealCluster, quick: bool, only: str = "") -> list[Row]:
    """One row a fault, then one a death. only: faults whose name has this in it."""
    cluster.wait_until(cluster.is_settled, "nine nodes that all hear each other", SETTLED_WITHIN_SECONDS)
    found = []
    for fault in FAULTS:
        seconds = fault.quick_seconds if quick else fault.seconds
        if seconds and only in fault.name and (cluster.shim or "clocks" not in fault.name):
            found.append(hold(cluster, fault, seconds))
            sys.stderr.write(f"{found[-1].fault}: {found[-1].deaths} dead, {found[-1].seen}\n")
    return [*found, *(kill(cluster, node) for node in (("b-0",) if quick else ("b-0", "c-1", "a-2")))]


def shown(found: list[Row]) -> str:
    header = ("fault", "held s", "not healthy meanwhile", "called dead", "healthy again s", "detected")
    body = [
        (row.fault, f"{row.held_seconds:.0f}", row.seen, str(row.deaths), f"{row.recovery_seconds:.1f}", row.detection)
        for row in found
    ]
    return "\n".join(align_columns([header, *body]))


def _counted(seen: set[tuple[str, str]]) -> str:
    """How many nodes had each verdict, with its reason."""
    return ", ".join(f"{count} {what}" for what, count in sorted(Counter(what for what, _ in seen).items())) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rows at a faster rhythm")
    parser.add_argument("--only", default="", help="faults with this in their name")
    args = parser.parse_args()
    rhythm = QUICK if args.quick else AS_INSTALLED
    with tempfile.TemporaryDirectory() as folder, RealCluster(Path(folder), rhythm) as cluster:
        found = rows(cluster, args.quick, args.only)
    sys.stdout.write(f"{len(NODES)} agents over 3 zones; {rhythm}\n{shown(found)}\n")
    return int(any(row.deaths != row.expected for row in found))


if __name__ == "__main__":
    sys.exit(main())
