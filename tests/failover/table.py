"""`python -m tests.failover.table`: every fault on a cluster of nine agents, and what detection says of it. As root.

Each fault is held for its time and healed; then all nodes must be healthy again before the next one. `--quick` runs
a few rows at a faster rhythm. Where KUBEBUILDER_ASSETS or E2E_BIN names a folder of kube-apiserver and etcd, the API
server is real, and the controller fails dead nodes over; else it is scripted, and the controller only judges. Exit
status 1 when a node was called dead or tainted that was not dead, or a dead one was not.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leadsman.runtime.text_table import align_columns
from tests.failover.agent_cluster import AS_INSTALLED, NODES, QUICK, ZONES, AgentCluster, Rhythm
from tests.failover.api_server_cluster import ApiServerCluster, ScriptedCluster
from tests.testbed.kube_apiserver import KubeApiServerMissing, find_assets

SETTLED_WITHIN_SECONDS = 120.0


Do = Callable[[Any], None]
"""To an AgentCluster."""


class Fault(NamedTuple):
    """seconds: how long it is held in the table, and in the quick run; 0: not in the quick run.

    repeat: called once a second while it is held.
    """

    name: str
    seconds: float
    quick_seconds: float
    make: Do
    undo: Do
    repeat: Do = lambda _: None


def _slow(cluster: AgentCluster) -> None:
    """a-0: half a second to everybody, its agent runs a third of the time, its kubelet renews late."""
    for other in NODES[1:]:
        cluster.net.set_delay("a-0", other, 500.0, loss_ratio=0.05)
    cluster.start_kubelet("a-0", late_seconds=cluster.rhythm.lease / 8)


def _stutter(cluster: AgentCluster) -> None:
    cluster.signal_agent("a-0", signal.SIGSTOP)
    time.sleep(0.6)
    cluster.signal_agent("a-0", signal.SIGCONT)


def _fast(cluster: AgentCluster) -> None:
    cluster.heal()
    cluster.start_kubelet("a-0")


def _cut_zone(cluster: AgentCluster) -> None:
    """From everything; within the zone all answer each other."""
    cluster.cut(ZONES["c"], [*ZONES["a"], *ZONES["b"]])
    for node in ZONES["c"]:
        cluster.unplug(node)


def _join_zone(cluster: AgentCluster) -> None:
    cluster.heal()
    for node in ZONES["c"]:
        cluster.plug_in(node)


FAULTS = (
    Fault("30 % loss everywhere", 600, 8, lambda c: c.lose(0.3), lambda c: c.heal()),
    Fault(
        "agent stopped",
        60,
        8,
        lambda c: c.signal_agent("b-1", signal.SIGSTOP),
        lambda c: c.signal_agent("b-1", signal.SIGCONT),
    ),
    Fault("ICMP dropped on one node", 60, 0, lambda c: c.drop_icmp(["a-1"]), lambda c: c.pass_icmp(["a-1"])),
    Fault("ICMP dropped everywhere", 90, 0, lambda c: c.drop_icmp(NODES), lambda c: c.pass_icmp(NODES)),
    Fault("etcd away", 60, 0, lambda c: c.etcd.kill(), lambda c: c.etcd.start()),
    Fault("API server hangs", 60, 6, lambda c: c.silence_api(), lambda c: c.heal_api()),
    Fault("the probers' own switch cut", 60, 0, lambda c: c.cut(ZONES["a"], NODES), lambda c: c.heal()),
    Fault("a zone cut from everything", 60, 10, _cut_zone, _join_zone),
    Fault(
        "clocks jump by an hour each second",
        30,
        0,
        lambda _: None,
        lambda c: c.set_clocks(0),
        lambda c: c.set_clocks(round(time.monotonic()) % 3 * 3600 - 3600),
    ),
    Fault("a slow node", 60, 0, _slow, _fast, _stutter),
    Fault("kubelet restarted", 40, 0, lambda c: c.stop_kubelet("b-2"), lambda c: c.start_kubelet("b-2")),
)

REAL_API_SERVER_FAULT = Fault("API server killed", 60, 0, lambda c: c.kubernetes.kill(), lambda c: c.kubernetes.start())
"""Of an ApiServerCluster alone."""


class Row(NamedTuple):
    """What happened while a fault was held and healed.

    seen: other verdicts that nodes had meanwhile, with their reasons, and how many nodes.
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
    verdicts = sorted(Counter(what for what, _ in seen).items())
    counted = ", ".join(f"{count} {what}" for what, count in verdicts) or "none"
    return Row(fault.name, seconds, counted, *counts, 0, recovery)


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
    for fault in (*FAULTS, *([REAL_API_SERVER_FAULT] if isinstance(cluster, ApiServerCluster) else [])):
        seconds = fault.quick_seconds if quick else fault.seconds
        if seconds and only in fault.name and not (cluster.clocks.missing and "clocks" in fault.name):
            found.append(hold(cluster, fault, seconds))
            sys.stderr.write(f"{found[-1].fault}: {found[-1].deaths} dead, {found[-1].seen}\n")
    return [*found, *(kill(cluster, node) for node in (("b-0",) if quick else ("b-0", "c-1", "a-2")))]


def shown(found: list[Row]) -> str:
    header = ("fault", "held s", "not healthy meanwhile", "called dead", "failed over", "healthy again s", "detected")
    body = []
    for fault, held, seen, deaths, failovers, _, recovery, detection in found:
        body.append((fault, f"{held:.0f}", seen, str(deaths), str(failovers), f"{recovery:.1f}", detection))
    return "\n".join(align_columns([header, *body]))


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
