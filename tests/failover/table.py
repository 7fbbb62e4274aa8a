"""`python -m tests.failover.table`: every fault on a cluster of nine agents, and what detection says of it. As root.

Each fault is held for its time and healed; then all nodes must be healthy again before the next one. `--quick` runs
a few rows at a faster rhythm. Where KUBEBUILDER_ASSETS or E2E_BIN names a folder of kube-apiserver and etcd, the API
server is real, and the controller fails dead nodes over; else it is scripted, and the controller only judges. Exit
status 1 when a node was called dead or tainted that was not dead, or a dead one was not.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from leadsman.runtime.text_table import align_columns
from tests.failover.agent_cluster import AS_INSTALLED, NODES, QUICK, AgentCluster, Rhythm
from tests.failover.api_server_cluster import ApiServerCluster
from tests.failover.faults import FAULTS, REAL_API_SERVER_FAULTS, Fault
from tests.failover.scripted_cluster import ScriptedCluster
from tests.testbed.kube_apiserver import KubeApiServerMissing, find_assets

SETTLED_WITHIN_SECONDS = 120.0


class Row(NamedTuple):
    """What happened while a fault was held and healed.

    seen: other verdicts that nodes had meanwhile.
    deaths, failovers: nodes called dead, and nodes tainted, which is the first step of a failover.
    expected: of both.
    detection: seconds from the cut, and from the first lost probe.
    """

    fault: str
    held_seconds: float
    seen: str
    deaths: int
    failovers: int
    expected: int
    recovery_seconds: float
    detection: str = ""


def hold(cluster: AgentCluster, fault: Fault, seconds: float) -> Row:
    """Makes the fault, holds it, heals it, and waits until all nodes are healthy."""
    deaths, failovers, seen = cluster.deaths(), cluster.tainted(), set[tuple[str, str]]()
    fault.make(cluster)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        fault.repeat(cluster)
        seen |= {(f"{one['verdict']} {one['reason']}", node) for node, one in cluster.troubled().items()}
        time.sleep(0.4)
    fault.undo(cluster)
    recovery = cluster.wait_until(cluster.is_settled, f"all nodes healthy after: {fault.name}", SETTLED_WITHIN_SECONDS)
    counts = round(cluster.deaths() - deaths), round(cluster.tainted() - failovers)
    return Row(fault.name, seconds, _counted(seen), *counts, 0, recovery)


def kill(cluster: AgentCluster, node: str) -> Row:
    """Kills a node for good, waits for the verdict and for its failover to begin, and brings it back."""
    deaths, failovers, lost = cluster.deaths(), cluster.tainted(), cluster.detection_seconds()
    began = time.monotonic()
    cluster.kill(node)
    took = cluster.wait_until(lambda: cluster.troubled().get(node, {}).get("verdict") == "dead", f"{node} dead", 60.0)
    cluster.wait_until(lambda: cluster.condition(node) == "True", f"the condition on {node}", 10.0)
    if cluster.acts:
        cluster.wait_until(lambda: cluster.tainted() > failovers, f"{node} tainted", 10.0)
    detection = f"{took:.1f} s after the cut, {cluster.detection_seconds() - lost:.1f} s after the first lost probe"
    cluster.heal()
    cluster.revive(node)
    recovery = cluster.wait_until(cluster.is_settled, f"{node} healthy again", SETTLED_WITHIN_SECONDS)
    held = time.monotonic() - began - recovery
    counts = round(cluster.deaths() - deaths), round(cluster.tainted() - failovers)
    return Row("a node killed", held, f"dead {node}", *counts, 1, recovery, detection)


def wrong(rows: Sequence[Row], acts: bool) -> list[Row]:
    """The rows with a false alarm, or with a death that was not seen. acts: whether dead nodes are failed over."""
    return [row for row in rows if row.deaths != row.expected or row.failovers != (row.expected if acts else 0)]


def rows(cluster: AgentCluster, quick: bool, only: str = "") -> list[Row]:
    """One row a fault, then one a death. only: faults whose name has this in it."""
    cluster.wait_until(cluster.is_settled, "nine nodes that all hear each other", SETTLED_WITHIN_SECONDS)
    found = []
    for fault in (*FAULTS, *(REAL_API_SERVER_FAULTS if isinstance(cluster, ApiServerCluster) else ())):
        seconds = fault.quick_seconds if quick else fault.seconds
        if seconds and only in fault.name and not (cluster.clocks.missing and "clocks" in fault.name):
            found.append(hold(cluster, fault, seconds))
            sys.stderr.write(f"{found[-1].fault}: {found[-1].deaths} dead, {found[-1].seen}\n")
    return [*found, *(kill(cluster, node) for node in (("b-0",) if quick else ("b-0", "c-1", "a-2")))]


def shown(found: list[Row]) -> str:
    header = ("fault", "held s", "not healthy meanwhile", "called dead", "failed over", "healthy again s", "detected")
    body = [
        (
            row.fault,
            f"{row.held_seconds:.0f}",
            row.seen,
            str(row.deaths),
            str(row.failovers),
            f"{row.recovery_seconds:.1f}",
            row.detection,
        )
        for row in found
    ]
    return "\n".join(align_columns([header, *body]))


def _counted(seen: set[tuple[str, str]]) -> str:
    """How many nodes had each verdict, with its reason."""
    return ", ".join(f"{count} {what}" for what, count in sorted(Counter(what for what, _ in seen).items())) or "none"


def new_cluster(folder: Path, rhythm: Rhythm) -> AgentCluster:
    """With a real API server where the machine names one. Every death may be failed over."""
    try:
        binaries = find_assets()
    except KubeApiServerMissing:
        return ScriptedCluster(folder, rhythm)
    return ApiServerCluster(binaries, folder, rhythm, "--failover-nodes", "1000")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rows at a faster rhythm")
    parser.add_argument("--only", default="", help="faults with this in their name")
    args = parser.parse_args()
    rhythm = QUICK if args.quick else AS_INSTALLED
    with tempfile.TemporaryDirectory() as folder, new_cluster(Path(folder), rhythm) as cluster:
        loads = [os.getloadavg()[0]]
        found = rows(cluster, args.quick, args.only)
        loads.append(os.getloadavg()[0])
        header = f"{len(NODES)} agents over 3 zones; {cluster.api_server}; {rhythm}"
        acting = "dead nodes are failed over, budget raised" if cluster.acts else "nodes are judged, nothing is done"
    shared = f"load of {os.cpu_count()} cores: {loads[0]:.1f} at the start, {loads[1]:.1f} at the end"
    sys.stdout.write(f"{header}\n{acting}; {shared}\n{shown(found)}\n")
    return int(bool(wrong(found, cluster.acts)))


if __name__ == "__main__":
    sys.exit(main())
