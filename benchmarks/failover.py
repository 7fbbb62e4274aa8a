"""Measures nodes that die one after another: seconds from the cut to the verdict, to the deletion of pods and to their
replacements.

`KUBEBUILDER_ASSETS=... python -m benchmarks.failover --deaths 10 --leader-deaths 3`, as root. Nine real agents in
network namespaces over three zones, kube-apiserver, kube-scheduler with our extender, kube-controller-manager and the
controller, all at the rhythm that is installed; a thread stands in for the kubelets. The budget is raised to all nodes,
so that no death is withheld. In the last deaths the controller that leads dies at the same moment.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from leadsman.runtime.text_table import align_columns
from tests.failover.agent_cluster import AS_INSTALLED, NODES, ZONES
from tests.failover.kubernetes_cluster import REFERENCE, KubernetesCluster
from tests.testbed.kube_apiserver import find_assets

CANDIDATES = tuple(node for zone in "ab" for node in ZONES[zone] if node != REFERENCE)
PODS, POD_SIZE = 6, "3Gi"
"""No node takes more than two, so at least two nodes beside the one that they are bounded to have some."""

PATIENCE_SECONDS = 90.0


class Death(Struct, frozen=True):
    """Times of one death, in seconds since the cut.

    pods: bounded ones that the node had. decided: the first was deleted. bound: the last replacement was bound.
    bound_to_dead: replacements that were bound to the dead node.
    """

    node: str
    pods: int
    detected: float
    decided: float
    bound: float
    bound_to_dead: int


def measured_death(cluster: KubernetesCluster, node: str, leader: str) -> Death:
    """Kills the node, and the controller at the URL `leader` unless that is "", until the pods are back."""
    before = cluster.pods()
    lost = {pod.uid for pod in before if pod.node == node}
    began = time.monotonic()
    cluster.kill(node)
    if leader:
        cluster.controllers[leader].send_signal(signal.SIGKILL)

    def passed_until(condition: Callable[[], object], what: str) -> float:
        cluster.wait_until(condition, f"{node} {what}", PATIENCE_SECONDS)
        return time.monotonic() - began

    detected = passed_until(lambda: cluster.troubled().get(node, {}).get("verdict") == "dead", "dead")
    decided = passed_until(lambda: lost & {pod.uid for pod in cluster.pods() if pod.terminating}, "decided")
    bound = passed_until(lambda: len(cluster.replaced(before)) >= len(lost), "bound")
    to_dead = sum(pod.node == node for pod in cluster.replaced(before))
    return Death(node, len(lost), detected, decided, bound, to_dead)


def measured_deaths(cluster: KubernetesCluster, count: int, *, with_leader: bool) -> list[Death]:
    """Measures deaths of the node with the most pods, of those that died least. Each is back before the next dies."""
    deaths = list[Death]()
    for _ in range(count):
        cluster.wait_until(cluster.ask_leader, "a leader", PATIENCE_SECONDS)
        cluster.wait_until(lambda: is_ready(cluster), "all pods bound, covered and remembered", PATIENCE_SECONDS)
        leader = cluster.leader() if with_leader else ""
        if leader:
            cluster.start_controller()  # this one is asked from now on
            cluster.wait_until(cluster.is_settled, "the next leader judges", PATIENCE_SECONDS)
        placed = [pod.node for pod in cluster.pods()]
        died = [death.node for death in deaths]
        node = min((one for one in CANDIDATES if one in placed), key=lambda one: (died.count(one), -placed.count(one)))
        deaths.append(measured_death(cluster, node, leader))
        sys.stderr.write(f"{deaths[-1]}\n")
        cluster.heal()
        cluster.revive(node)
        cluster.wait_until(cluster.is_settled, f"{node} back", PATIENCE_SECONDS)
    return deaths


def is_ready(cluster: KubernetesCluster) -> bool:
    """Tells whether every pod is bound and covered, and the next leader would know its backup."""
    pods = {pod.uid for pod in cluster.pods() if not pod.terminating}
    return len(pods) == PODS and cluster.is_covered() and cluster.remembered() >= pods


def shown(name: str, deaths: Sequence[Death]) -> list[tuple[str, ...]]:
    """Returns a row each for detected, decided and bound."""
    rows = []
    for step in ("detected", "decided", "bound"):
        seconds = sorted(getattr(death, step) for death in deaths)
        quantiles = (seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.95, 1.0))
        pods, to_dead = sum(death.pods for death in deaths), sum(death.bound_to_dead for death in deaths)
        rows.append((name, str(len(deaths)), str(pods), step, *(f"{each:.1f}" for each in quantiles), str(to_dead)))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=10, metavar="N", help="of nodes alone (default 10)")
    parser.add_argument("--leader-deaths", type=int, default=3, metavar="N", help="with the leader (default 3)")
    args = parser.parse_args()
    budget = ("--failover-nodes", "1000")
    with (
        tempfile.TemporaryDirectory() as folder,
        KubernetesCluster(find_assets(), Path(folder), AS_INSTALLED, *budget) as cluster,
    ):
        cluster.wait_until(cluster.is_settled, "nine nodes that all hear each other", 2 * PATIENCE_SECONDS)
        cluster.deploy("web", PODS, POD_SIZE)
        alone = measured_deaths(cluster, args.deaths, with_leader=False)
        together = measured_deaths(cluster, args.leader_deaths, with_leader=True)
    header = ("died", "deaths", "pods", "s from the cut to", "p50", "p95", "max", "bound to the dead")
    rows = [
        row
        for name, deaths in (("node", alone), ("node and leader", together))
        if deaths
        for row in shown(name, deaths)
    ]
    sys.stdout.write(f"{len(NODES)} nodes over 3 zones; {AS_INSTALLED}; budget raised\n")
    sys.stdout.write("\n".join(align_columns([header, *rows])) + "\n")
    return int(any(death.bound_to_dead for death in (*alone, *together)))


if __name__ == "__main__":
    sys.exit(main())
