"""Self-healing on the cluster: what nodes die of, how soon their bounded pods are elsewhere, and what is no death."""

import os
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from leadsman.kube.names import UNREACHABLE_CONDITION
from leadsman.testbed import namespaces
from tests.e2e.cluster import Cluster
from tests.e2e.disturbances import Disturbance, Skipped, node_of
from tests.e2e.node import Node
from tests.e2e.rollout import Rollout
from tests.e2e.state_watch import StateWatch
from tests.e2e.workload import REPLICAS, is_elsewhere, is_tainted, living, pods, spread, with_workload

FEWEST = {1: 4, 2: 6}
"""Nodes of a cluster in which so many may die at once: 80 % of the others' Leases must go on (docs/self-healing.md)."""

DEAD_WITHIN_SECONDS = 30.0
"""From the cut to the last replacement's node: docs/self-healing.md."""

WATCHED_SECONDS = 20.0
"""After a fault that is no death: longer than any of the controller's three signals takes to end."""

STEPS = ("suspect", "dead", "tainted", "deleted", "bound")


def deaths_of(*parts: str) -> Disturbance:
    """Power cuts of nodes with a pod of the part (agent: of any other node) and bounded pods. Each boots again.

    Of several parts, as many nodes at once.
    """

    def disturb(cluster: Cluster, rollout: Rollout) -> str:
        if len(cluster.nodes) < FEWEST[len(parts)]:
            raise Skipped(f"needs --nodes={FEWEST[len(parts)]}: the living ones are too few to tell")
        deaths = [_death(cluster, rollout, parts) for _ in range(rollout.deaths)]
        late = [death for death in deaths if death["bound"] > DEAD_WITHIN_SECONDS]
        said = f"n {len(deaths)}, p50/max s: {', '.join(_step(deaths, step) for step in STEPS)}"
        if late:
            raise RuntimeError(f"{len(late)} of {len(deaths)} took over {DEAD_WITHIN_SECONDS:g} s: {said}")
        return said

    return with_workload(disturb)


def _step(deaths: Sequence[Mapping[str, float]], step: str) -> str:
    seconds = [death[step] for death in deaths if step in death]
    return f"{step} {statistics.median(seconds):.1f}/{max(seconds):.1f}" if seconds else f"{step} not seen"


def withstands(fault: Callable[[Cluster, Node], None]) -> Disturbance:
    """Something that is no death: all bounded pods stay, and no node is tainted."""

    def disturb(cluster: Cluster, rollout: Rollout) -> str:
        spread(cluster)
        before = {pod["metadata"]["uid"] for pod in pods(cluster)}
        fault(cluster, node_of(cluster, "etcd"))
        ends_at = time.monotonic() + WATCHED_SECONDS
        while time.monotonic() < ends_at:
            gone = before - {pod["metadata"]["uid"] for pod in living(cluster)}
            tainted = [node.name for node in cluster.nodes if is_tainted(cluster, node.name)]
            if gone or tainted:
                raise RuntimeError(f"{len(gone)} pods were deleted, tainted: {tainted or 'none'}")
            time.sleep(1)
        rollout.wait_for_all()
        cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")
        return f"{len(before)} bounded pods stayed"

    return with_workload(disturb)


def cut_network(_: Cluster, node: Node) -> None:
    """Three times 8 s; between two it renews its Lease, so that they are not one."""
    for _time in range(3):
        namespaces.configure([f"link set {node.name} down"])
        time.sleep(8)
        namespaces.configure([f"link set {node.name} up"])
        time.sleep(WATCHED_SECONDS)


def stop_kubelet(_: Cluster, node: Node) -> None:
    """Its Lease runs out, and its pods go on."""
    pids = node.kubelets()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(60)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _death(cluster: Cluster, rollout: Rollout, parts: Sequence[str]) -> Mapping[str, float]:
    """Step → seconds since the cut until it was done for all nodes."""
    spread(cluster)
    nodes = _chosen(cluster, parts)
    names = {node.name for node in nodes}
    lost = {pod["metadata"]["uid"] for pod in pods(cluster) if pod["spec"].get("nodeName") in names}
    if not lost:
        raise RuntimeError(f"{names} have no bounded pod")
    began, seen = time.monotonic(), dict[str, float]()
    for node in nodes:  # All at once: a node's processes take a second to end.
        node.unplug()
    for node in nodes:
        node.lose()

    def all_bound() -> bool:
        passed = time.monotonic() - began
        left = living(cluster)
        statuses = {_condition(cluster, name).get("status") for name in names}
        steps = {
            "suspect": statuses == {"Unknown"},
            "dead": statuses == {"True"},
            "tainted": all(is_tainted(cluster, name) for name in names),
            "deleted": not lost & {pod["metadata"]["uid"] for pod in left},
            "bound": sum(is_elsewhere(pod, *names) for pod in left) >= REPLICAS,
        }
        for step in (step for step, is_seen in steps.items() if is_seen):
            seen.setdefault(step, passed)
        return steps["bound"]

    try:
        cluster.until(all_bound, f"{len(lost)} pods of {names} are bound elsewhere", 90)
    except TimeoutError as late:
        conditions = [_condition(cluster, name) for name in names]
        raise TimeoutError(f"{late}; seen: {seen}; conditions: {conditions}") from late
    for node in nodes:
        node.start(cluster.images)
    cluster.until(lambda: all(map(cluster.is_ready, names)), f"{names} are Ready")
    rollout.wait_for_all()
    cluster.until(lambda: not any(is_tainted(cluster, name) for name in names), f"{names} are not tainted any more")
    cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")
    return seen


def _chosen(cluster: Cluster, parts: Sequence[str]) -> Sequence[Node]:
    nodes = list[Node]()
    for part in parts:
        nodes.append(node_of(cluster, part, but=nodes))
    return nodes


def _condition(cluster: Cluster, node: str) -> Mapping[str, str]:
    """What the controller says of the node; nothing before it has found something."""
    conditions = cluster.api.call("GET", f"/api/v1/nodes/{node}")["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == UNREACHABLE_CONDITION), {})
